/** HTML in which everything from elsewhere is text. */

/** Markup that is safe as it is: made by `html`, of literal text and of values that were escaped. */
export interface Html {
  readonly markup: string;
}

/** What may stand in a template: text and numbers are escaped, nothing stands for false and undefined. */
export type HtmlValue = Html | string | number | false | undefined | readonly HtmlValue[];

/** A template of HTML. Attribute values must stand in double quotes. */
export function html(literals: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let markup = literals[0]!;
  values.forEach((value, i) => markup += markupOf(value) + literals[i + 1]);
  return { markup };
}

/** Markup that is known to be safe: constants of this program. */
export function literally(markup: string): Html {
  return { markup };
}

function markupOf(value: HtmlValue): string {
  if (value === undefined || value === false) return "";
  if (typeof value === "string" || typeof value === "number") return escape(String(value));
  return "markup" in value ? value.markup : value.map(markupOf).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
}
