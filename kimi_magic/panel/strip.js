// The usage: sums of the conversation in a strip, and the tokens of each turn as a plot.

class Strip {
  constructor(store) {
    this.store = store;
    this.el = make("div", { className: "kimi-strip", role: "group", "aria-label": "Usage" });
    this.plot = make("div", { className: "kimi-plot" });
    this.timer = setInterval(() => this.count(), 1000);
  }

  draw(use) {
    const percent = (part) => `${Math.round(part * 100)} %`;
    const fact = (name, value, title = "") => make("span", { className: "kimi-fact", title }, make("b", { textContent: value }), ` ${name}`);
    this.left = fact("until the cache forgets", "–", "The server keeps the prompt so long; asking before is cheaper");
    const meter = make("meter", { min: 0, max: use.window, value: use.context, "aria-label": "Context used" });
    this.el.replaceChildren(
      fact("in", number(use.in), "Tokens of all requests of this conversation, cached or not"), fact("cached", number(use.cached)),
      fact("out", number(use.out), "Thinking included"), fact("cache hits", use.hit_rate == null ? "–" : percent(use.hit_rate)),
      fact("this conversation", use.cost), fact("this notebook, today", use.today), this.left,
      make("span", { className: "kimi-fact", title: "Tokens of the last request and its reply" }, meter, ` ${number(use.context)} of ${number(use.window)} context`));
    const legend = [["cached", "cached"], ["fresh", "new"], ["out", "out"]].map(([kind, text]) =>
      make("span", { className: "kimi-fact" }, make("span", { className: `kimi-bar kimi-bar-${kind}` }), text));
    const tokens = make("div", { className: "kimi-strip" }, make("span", { className: "kimi-quiet", textContent: "Tokens of each turn:" }), ...legend);
    this.plot.replaceChildren(...(use.plot.length > 1 ? [tokens, plot(use.plot)] : []));
    this.count();
  }

  count() {
    const seconds = this.store.state?.usage.expires_in;
    if (!this.left) return;
    const left = seconds == null ? null : seconds - (Date.now() - this.store.heardAt) / 1000;
    this.left.firstChild.textContent = left == null ? "–" : left <= 0 ? "0:00" : clock(left);
  }

  remove() {
    clearInterval(this.timer);
  }
}

function plot(bars) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const most = Math.max(1, ...bars.map((bar) => bar.cached + bar.fresh + bar.out));
  const words = bars.map((bar, n) => `turn ${n + 1}: ${number(bar.cached)} cached, ${number(bar.fresh)} new, ${number(bar.out)} out`);
  svg.setAttribute("viewBox", `0 0 ${Math.max(bars.length, 12) * 8} 40`);
  svg.setAttribute("preserveAspectRatio", "xMinYMax");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Tokens of each turn. ${words.join("; ")}`);
  bars.forEach((bar, n) => {
    const group = document.createElementNS(ns, "g");
    const title = document.createElementNS(ns, "title");
    title.textContent = words[n];
    group.append(title);
    let top = 40;
    for (const kind of ["cached", "fresh", "out"]) {
      const height = (bar[kind] / most) * 38;
      const rect = document.createElementNS(ns, "rect");
      top -= height;
      for (const [name, value] of Object.entries({ x: n * 8 + 1, y: top, width: 6, height, class: `kimi-bar-${kind}` }))
        rect.setAttribute(name, value);
      group.append(rect);
    }
    svg.append(group);
  });
  return svg;
}
