// Shows a reply as it comes. The kernel sends what is new and says where it belongs, so a message that
// was lost or came twice does no harm: a full snapshot follows each time the reply has doubled in size.
//
// Everything that is HTML here was made and sanitised in the kernel; model text comes as text.

const newReply = () => ({ parts: [], waiting: "", views: new Set() });

// A part is what the reader sees as one piece: thinking (text that grows), text (blocks of HTML that
// stay, and an open rest), or HTML that is replaced as a whole.
function take(reply, message) {
  if (message.reset) {
    reply.parts = [];
    for (const view of reply.views) view.clear();
  }
  if (message.waiting !== undefined) {
    reply.waiting = message.waiting;
    for (const view of reply.views) view.wait(reply.waiting);
  }
  for (const news of message.parts) {
    const part = (reply.parts[news.place] ??= { kind: news.kind, head: news.head, text: "", blocks: [] });
    let text = "", blocks = [];
    if (news.text !== undefined && news.at <= part.text.length) {
      text = news.text.slice(part.text.length - news.at);
      part.text += text;
    }
    if (news.blocks !== undefined && news.at <= part.blocks.length) {
      blocks = news.blocks.slice(part.blocks.length - news.at);
      part.blocks.push(...blocks);
    }
    for (const name of ["tail", "label", "html"]) if (news[name] !== undefined) part[name] = news[name];
    for (const view of reply.views) view.show(news.place, part, text, blocks);
  }
}

function nodesOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

class View {
  constructor(reply, el) {
    this.el = el;
    this.places = [];
    this.wait(reply.waiting);
    reply.parts.forEach((part, place) => this.show(place, part, part.text, part.blocks));
  }

  clear() {
    this.places = [];
    this.el.replaceChildren();
  }

  wait(html) {
    if (!this.places.length) this.el.replaceChildren(nodesOf(html));
  }

  show(place, part, text, blocks) {
    if (!this.places.length) this.el.replaceChildren();
    const shown = (this.places[place] ??= this.begin(part));
    if (part.kind === "thinking") {
      if (part.label !== undefined) shown.summary.textContent = part.label;
      shown.text.appendData(text);
    } else if (part.kind === "text") {
      for (const html of blocks) shown.blocks.append(nodesOf(html));
      if (part.tail !== shown.tail) shown.rest.replaceChildren(nodesOf((shown.tail = part.tail) ?? ""));
    } else if (part.html !== shown.html) {
      shown.el.replaceChildren(nodesOf((shown.html = part.html) ?? ""));
    }
  }

  begin(part) {
    const el = document.createElement("div");
    this.el.append(el);
    if (part.kind === "thinking") {
      el.append(nodesOf(part.head));
      const text = document.createTextNode("");
      el.querySelector(".kimi-thought").append(text);
      return { el, text, summary: el.querySelector("summary") };
    }
    if (part.kind === "text") {
      el.className = "kimi-text";
      const [blocks, rest] = [document.createElement("div"), document.createElement("div")];
      el.append(blocks, rest);
      return { el, blocks, rest };
    }
    return { el };
  }
}
