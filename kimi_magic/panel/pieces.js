// Small pieces of the panel's page.

function make(tag, properties = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") el.setAttribute(name, value);
    else el[name] = value;
  }
  el.append(...children);
  return el;
}

let count = 0;
function labelled(text, control, hint = "") {
  control.id = `kimi-${++count}`;
  return make("label", { for: control.id, title: hint }, make("span", { textContent: text }), control);
}

function options(select, values, chosen) {
  const wanted = JSON.stringify([values, chosen]);
  if (select.kimiShown === wanted) return;
  select.kimiShown = wanted;
  select.replaceChildren(...values.map(([value, text]) => make("option", { value, textContent: text })));
  select.value = chosen;
}

const number = (value) => value.toLocaleString("en");

function clock(seconds) {
  const left = Math.max(0, Math.round(seconds));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
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

// The last code block of a reply, as a cell; without one, the turn as text.
function cellOf(item) {
  const blocks = [...item.text.matchAll(/^(`{3,}|~{3,})[^\n]*\n([\s\S]*?)^\1[`~]*[ \t]*$/gm)];
  const code = blocks.at(-1)?.[2];
  return code ? { cell_type: "code", source: code.replace(/\n$/, "") } : { cell_type: "markdown", source: item.markdown };
}
