"""Figures of experiments, one file a family."""

from .accuracy import Estimate as Estimate
from .accuracy import Line as Line
from .accuracy import Timed as Timed
from .accuracy import accuracy_against_time as accuracy_against_time
from .accuracy import accuracy_by_features as accuracy_by_features
from .accuracy import ranked_accuracies as ranked_accuracies
from .activations import activation_curves as activation_curves
from .canvas import save as save
from .errors import Curve as Curve
from .errors import Laws as Laws
from .errors import error_curves as error_curves
from .errors import power_laws as power_laws
from .tables import ScoreOfRows as ScoreOfRows
from .tables import compare_methods as compare_methods
from .training import Training as Training
from .training import training_curves as training_curves
