// Browsers start no workers from the file system, and the search runs in one. Opened as a file, the site runs it in a frame.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = inside.document.createElement("script")
      script.src = new URL(url, location.href).href
      script.onload = () => {
        this.postMessage = data => inside.dispatchEvent(new MessageEvent("message", { data }))
        this.waiting.forEach(data => this.postMessage(data))
      }
      inside.document.body.append(script)
    }
    postMessage(data) {
      this.waiting.push(data)
    }
  }
}
