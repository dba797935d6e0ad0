"""The simulator's sentences in two languages, told apart from what it says with them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """Texts with `str.format` fields; sentences of `thinking` and `filler` are used in order."""

    opening: str
    before: str
    general: str
    tips: str
    system: str
    unknown: str
    table: str
    table_head: str
    greatest: str
    code: str
    code_data: str
    math: str
    image: str
    image_url: str
    result: str
    failed: str
    calling: str
    refusal: str
    found: str
    searched: str
    no_search: str
    heading: str
    size: str
    seen: tuple[str, str, str, str, str, str, str]
    """Names of: tools, results, images, a table, a search, a schema, nothing."""
    thinking: tuple[str, ...]
    filler: tuple[str, ...]


ENGLISH = Phrases(
    opening="*Simulated reply: no model has read this.* You asked: “{first}”",
    before="This is turn {turn} of our conversation. Before it you asked: “{before}”",
    general=(
        "I am the simulator that comes with kimi_magic, so I cannot answer that. "
        "What I can tell you is true:\n\n"
        "- Your prompt has **{words}** on {lines}, about {tokens}; its longest word is `{longest}`.\n"
        "- It came with effort `{effort}` and room for {room:,} tokens, thinking included.\n"
        "- With it came {messages} of this conversation."
    ),
    tips=(
        "Ask me about a table, an image, some `code` or a bit of *math*, give me a tool or a schema, and I "
        "show what such a reply looks like. Set `KIMI_API_KEY` to ask the real model."
    ),
    system="The system prompt begins “{system}”",
    unknown="I know no directive `{name}`; the nearest is `{nearest}`.",
    table="The table that you sent has **{rows} rows** and {columns} columns: {names}.",
    table_head="| column | mean | least | greatest |",
    greatest="The greatest `{column}`, **{value}**, stands in the row of {label}.",
    code="Here is code that runs as it is:",
    code_data="Here is code that computes the mean of `{column}` from your table, and runs as it is:",
    math=(
        "Inline, the mean is \\(\\bar{x} = \\frac{1}{n} \\sum_{i=1}^{n} x_i\\), and Euler's identity is "
        "\\(e^{i\\pi} + 1 = 0\\).\n\nOn a line of its own, the normal density:\n\n"
        "\\[ f(x) = \\frac{1}{\\sigma\\sqrt{2\\pi}} "
        "\\exp\\left(-\\frac{(x-\\mu)^2}{2\\sigma^2}\\right) \\]\n\n"
        "And the integral behind it:\n\n$$\\int_{-\\infty}^{\\infty} e^{-x^2}\\,dx = \\sqrt{\\pi}$$"
    ),
    image="- Image {n}: `{media}`, {size}, {bytes:,} bytes.",
    image_url="- Image {n}: at {url}, which I do not fetch.",
    result="- `{name}` returned: {value}",
    failed="- `{name}` failed: {value}",
    calling="Calling {names}.",
    refusal="I can't help with that. (A simulated refusal.)",
    found="I looked for “{query}” and found this, made up as it is:",
    searched="{title} says that {claim}.",
    no_search="The search for “{query}” failed: `{code}`.",
    heading="On “{topic}”, part {n}",
    size="size unknown",
    seen=(
        "tools to call",
        "results of tools",
        "images",
        "a table",
        "a web search",
        "a schema to follow",
        "Nothing but the words",
    ),
    thinking=(
        "The user asks: “{first}”",
        "I am a simulator, so I should say so and keep to what can be computed from the request.",
        "The prompt has {words}, about {tokens}.",
        "The request holds {messages}.",
        "What is there that I can work with? {seen}.",
        "Whatever I compute from it, I count it again before I say it.",
        "If there is code to write it has to run without anything to install.",
        "Formulas, if any, should come in every notation that a notebook knows.",
        "Wait, does an earlier turn matter here? I should point to it, so that the thread can be followed.",
        "The reply should be short; nobody wants to read a long text from a simulator unasked.",
        "The numbers must be right, since they are the one thing that a reader can check.",
        "Headings would be too much for a few lines; a list or a small table will do.",
        "I should not pretend to know facts about the world.",
        "And I should name the key that turns this into a real conversation.",
        "That is all there is to weigh. I can write the reply now.",
    ),
    filler=(
        "This paragraph is filler, made to the size that you asked for.",
        "It has no meaning beyond its length, and it says so.",
        "A long reply is useful to see how a notebook scrolls, how fast text is drawn and what a cell keeps.",
        "Some words are **bold**, some are *emphasised*, and some are `code`.",
        "A line may hold a formula such as \\(a^2 + b^2 = c^2\\) in the middle of a sentence.",
        "Prices such as $5 and $6 are not formulas.",
        "A link looks like [this one](https://example.org/page).",
        "The quick brown fox jumps over the lazy dog, as it always does.",
        "Characters from other scripts, such as 深圳, Ελλάδα or Кремль, take more bytes than they seem to.",
        "After a while one stops reading and looks at the shape of the text instead.",
    ),
)

CHINESE = Phrases(
    opening="*模拟回复，没有任何模型读过你的问题。*你问的是：**“{first}”**。",
    before="这是我们对话的**第 {turn} 轮**；上一轮你问的是：**“{before}”**。",
    general=(
        "我是 kimi_magic 自带的模拟器，无法真正回答这个问题。**我能如实告诉你的是：**\n\n"
        "- **提示词：**共 {characters} 个字符，{lines_zh}，约 {size} 个 token。\n"
        "- **思考强度：**`{effort}`，最多输出 {room:,} 个 token（**包含思考**）。\n"
        "- **上下文：**本次请求带来了 {count} 条消息。"
    ),
    tips=(
        "可以让我看**表格（DataFrame）**、图片，或者让我写代码、公式。"
        "设置 `KIMI_API_KEY` 即可向**真正的模型**提问。"
    ),
    system="系统提示的开头是**“{system}”**。",
    unknown="没有 `{name}` 这个指令，最接近的是 `{nearest}`。",
    table="你发来的表格有 **{rows} 行**、{columns} 列：{names}。",
    table_head="| 列 | 平均值 | 最小值 | 最大值 |",
    greatest="`{column}` 的最大值是 **{value}**，在 {label} 这一行。",
    code="下面的代码**（可以直接运行）**：",
    code_data="下面的代码用你的表格计算 `{column}` 的平均值**（可以直接运行）**：",
    math=(
        "行内公式：平均值 \\(\\bar{x} = \\frac{1}{n} \\sum_{i=1}^{n} x_i\\)，"
        "**欧拉恒等式：**\\(e^{i\\pi} + 1 = 0\\)。\n\n"
        "独立成行的正态分布密度：\n\n"
        "\\[ f(x) = \\frac{1}{\\sigma\\sqrt{2\\pi}} "
        "\\exp\\left(-\\frac{(x-\\mu)^2}{2\\sigma^2}\\right) \\]\n\n"
        "以及它背后的积分：\n\n$$\\int_{-\\infty}^{\\infty} e^{-x^2}\\,dx = \\sqrt{\\pi}$$"
    ),
    image="- 图片 {n}：`{media}`，{size}，{bytes:,} 字节。",
    image_url="- 图片 {n}：地址 {url}，模拟器不会下载。",
    result="- `{name}` 返回：{value}",
    failed="- `{name}` 失败：{value}",
    calling="正在调用 {names}。",
    refusal="抱歉，我无法帮助完成这个请求。（模拟的拒绝）",
    found="我搜索了**“{query}”**，结果如下（均为虚构）：",
    searched="{title} 指出：{claim}。",
    no_search="搜索**“{query}”**失败：`{code}`。",
    heading="关于“{topic}”，第 {n} 部分",
    size="尺寸未知",
    seen=("可以调用的工具", "工具的结果", "图片", "一张表格", "联网搜索", "要遵循的结构", "只有文字"),
    thinking=(
        "用户问的是：“{first}”。",
        "我是模拟器，应当如实说明，只说可以从请求中算出来的内容。",
        "提示词约 {size} 个 token。",
        "这次请求共有 {count} 条消息。",
        "有什么可以处理的东西？{seen}。",
        "算出来的数字，说出来之前要再核对一遍。",
        "如果要写代码，它必须不装任何东西就能运行。",
        "公式应当用上笔记本认识的每一种写法。",
        "等等，前面的轮次和这里有关系吗？应当提一下，让对话连得上。",
        "回复要简短，没有人愿意读模拟器的长文。",
        "数字必须正确，因为只有它们可以核对。",
        "几行文字用不着标题，列表或小表格就够了。",
        "我不应当假装知道世界上的事实。",
        "还应当说明设置哪个密钥就能与真正的模型对话。",
        "要考虑的就是这些，可以写回复了。",
    ),
    filler=(
        "这一段是按你要求的长度生成的填充文字。",
        "除了长度以外，它没有别的意思，**它自己也这么说。**",
        "长回复可以用来看笔记本如何滚动、文字显示得多快、单元格保存了什么。",
        "有的词是**粗体**，有的是*斜体*，有的是 `代码`。",
        "句子中间可以有公式，比如 \\(a^2 + b^2 = c^2\\)。",
        "像 $5 和 $6 这样的价格不是公式。",
        "链接是这样的：[示例](https://example.org/page)。",
    ),
)
