import { timeOfDay } from "../../platform/mod.ts";

/** HTML templates that escape every value. */

/** Safe markup: constants, and templates with escaped values. */
export interface Html {
  readonly markup: string;
}

/** A value in a template. Text and numbers are escaped; false and undefined render nothing. */
type HtmlValue = Html | string | number | false | undefined | readonly HtmlValue[];

/** Renders a template of HTML. Attribute values must be in double quotes. */
export function html(literals: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  let markup = literals[0]!;
  values.forEach((value, i) => markup += markupOf(value) + literals[i + 1]);
  return { markup };
}

/** Inserts markup unescaped. It must be a constant of this program. */
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

/** A length in a drawing, with one decimal. */
export function round(length: number): number {
  return Math.round(length * 10) / 10;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);
}

/** A point in time: the time of day in UTC, which the page's script replaces with its age. */
export function moment(atMs: number): Html {
  return html`<time datetime="${new Date(atMs).toISOString()}">${timeOfDay(atMs)} UTC</time>`;
}

/** A row of a description list. */
export function row(name: Html | string, value: Html | string): Html {
  return html`
    <div>
      <dt>${name}</dt>
      <dd>${value}</dd>
    </div>
  `;
}
