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

function button(text, title, action, name = "") {
  return make("button", { type: "button", textContent: text, title, onclick: action, className: name });
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

// The last code block of a reply, as a cell; without one, the turn as text.
function cellOf(item) {
  const blocks = [...item.text.matchAll(/^(`{3,}|~{3,})[^\n]*\n([\s\S]*?)^\1[`~]*[ \t]*$/gm)];
  const code = blocks.at(-1)?.[2];
  return code ? { cell_type: "code", source: code.replace(/\n$/, "") } : { cell_type: "markdown", source: item.markdown };
}
