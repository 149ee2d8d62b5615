// Finds the texts in the sources of the console, and the code that reads `console/texts`.

import { readdirSync, readFileSync } from "node:fs";
import ts from "typescript";

const CONSOLE = new URL("../../console/", import.meta.url);
/** Attributes and properties whose values are shown or read by screen readers. */
const LABELS = ["title", "label", "hint", "placeholder", "alt", "aria-label", "empty", "what", "none"];
/** Attributes whose values are never shown. */
const HIDDEN = /\s(class|key|href|id|style|for|name|points)=$/;
/** Methods that compare their arguments with other values. */
const COMPARISONS = ["startsWith", "includes", "closest", "querySelector"];
/** Placeholder for an expression in a template. */
const HOLE = "\ufffc";

/** Return the path and source of each module of the console, without its texts. @returns {[string, string][]} */
export function modules() {
  return readdirSync(CONSOLE, { recursive: true }).filter((name) => name.endsWith(".js") && !name.startsWith("texts")).sort()
    .map((name) => [name, readFileSync(new URL(name, CONSOLE), "utf8")]);
}

/** Return the texts in a module: the text and labels of its templates, and strings that look like a label or a sentence. */
export function textsIn(source) {
  const found = [];
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isTypeNode(node)) return;
    if (ts.isTaggedTemplateExpression(node) && node.tag.getText() === "html") return markup(node.template);
    if (ts.isStringLiteralLike(node)) {
      if (!isName(node) && isSentence(node.text)) found.push(node.text);
    } else if (ts.isTemplateExpression(node)) {
      const text = node.head.text + node.templateSpans.map(({ literal }) => HOLE + literal.text).join("");
      if (isSentence(text)) found.push(text);
    }
    ts.forEachChild(node, visit);
  };
  const markup = (template) => {
    const spans = ts.isTemplateExpression(template) ? template.templateSpans : [];
    let text = spans.length ? template.head.text : template.text;
    for (const { expression, literal } of spans) {
      if (!HIDDEN.test(text)) visit(expression);
      if (!/<[^>]*$/.test(text)) found.push(...stringsOf(expression).filter((value) => /\p{L}/u.test(value) && !isSentence(value)));
      text += HOLE + literal.text;
    }
    const shown = text.replace(/<!--.*?-->/gs, "").replace(/(<code[^>]*>)[^<]*/g, "$1");
    found.push(...shown.split(/<[^>]*>/).map((part) => part.trim()).filter((part) => /\p{L}{2}/u.test(part)));
    for (const [tag] of shown.matchAll(/<[^>]*>/g)) {
      for (const [, name, value] of tag.matchAll(/\s([\w-]+)="([^"]*)"/g)) if (name !== "class" && (LABELS.includes(name) ? /\p{L}/u.test(value) : isSentence(value))) found.push(value);
    }
  };
  visit(parse(source));
  return found;
}

/** Return the keys of the texts that a module reads, such as `common.cancel`. The key of a group means all of its keys. */
export function readsOf(source) {
  const groups = new Map([["texts", ""]]);
  const reads = [];
  const visit = (node) => {
    if (ts.isImportDeclaration(node)) return;
    if (ts.isVariableDeclaration(node) && ts.isSourceFile(node.parent.parent.parent) && node.initializer && pathOf(node.initializer)?.[0] === "texts") {
      groups.set(node.name.getText(), pathOf(node.initializer).slice(1).join("."));
      return;
    }
    const [root, ...keys] = pathOf(node) ?? [];
    if (!groups.has(root) || (ts.isIdentifier(node) && ts.isPropertyAccessExpression(node.parent) && node.parent.name === node)) {
      ts.forEachChild(node, visit);
      return;
    }
    reads.push([groups.get(root), ...keys].filter(Boolean).join("."));
  };
  visit(parse(source));
  return reads;
}

/** Return the keys of all texts in a group, such as `common.cancel`. @returns {string[]} */
export function keysOf(group, path = "") {
  return Object.entries(group).flatMap(([key, value]) => (typeof value === "object" ? keysOf(value, `${path}${key}.`) : [path + key]));
}

/** Return the keys of one language that another language lacks, or has with another type. */
export function missingKeys(language, other) {
  const typeAt = (texts, key) => typeof key.split(".").reduce((group, name) => group?.[name], texts);
  return keysOf(language).filter((key) => typeAt(language, key) !== typeAt(other, key));
}

/** Whether a string is never shown, because it is a key or is only compared with other values. */
function isName({ parent, ...node }) {
  if (ts.isPropertyAssignment(parent)) return parent.name.pos === node.pos;
  if (ts.isBinaryExpression(parent)) return /^[=!]==$/.test(parent.operatorToken.getText());
  if (ts.isCallExpression(parent)) return COMPARISONS.includes(parent.expression.name?.text);
  return ts.isElementAccessExpression(parent) || ts.isCaseClause(parent);
}

/** Whether a string looks like a label or a sentence, not like a name in code. */
function isSentence(text) {
  return /\p{L}{2}/u.test(text) && (/^\s*\p{Lu}\p{Ll}/u.test(text) || /\p{L}[,.:;?!…]?\s+\p{L}/u.test(text) || /\p{L}[…!?.]$/u.test(text.trim()));
}

/** Return the strings that an expression may evaluate to. */
function stringsOf(node) {
  if (ts.isStringLiteralLike(node)) return [node.text];
  if (ts.isParenthesizedExpression(node)) return stringsOf(node.expression);
  if (ts.isConditionalExpression(node)) return [...stringsOf(node.whenTrue), ...stringsOf(node.whenFalse)];
  return ts.isBinaryExpression(node) && /^(&&|\|\||\?\?)$/.test(node.operatorToken.getText()) ? [...stringsOf(node.left), ...stringsOf(node.right)] : [];
}

/** Return the names in a chain such as `texts.common.cancel`; undefined for other expressions. */
function pathOf(node) {
  if (ts.isIdentifier(node)) return [node.text];
  if (!ts.isPropertyAccessExpression(node)) return undefined;
  const path = pathOf(node.expression);
  return path && [...path, node.name.text];
}

function parse(source) {
  return ts.createSourceFile("module.js", source, ts.ScriptTarget.Latest, true);
}
