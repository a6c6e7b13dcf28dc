/** A form in which something can be given: its media type, and the parameters that a request must name. */
export interface OfferedForm {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * The offered forms that an Accept field (RFC 9110, 12.5.1) allows, the preferred one first; without the field, the first
 * one that is offered. A form with parameters must be named with all of them; others are passed over but for `charset`, which
 * must be UTF-8.
 */
export function preferredForms(accept: string, offered: readonly OfferedForm[]): readonly OfferedForm[] {
  if (accept.trim() === "") return offered.slice(0, 1);
  const ranges = accept.split(",").map(readRange).filter(({ quality }) => quality > 0);
  const byQuality = ranges.toSorted((a, b) => b.quality - a.quality);
  return byQuality.flatMap((range) => offered.filter((form) => isAllowed(form, range)));
}

interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
}

function readRange(text: string): MediaRange {
  const [type = "", ...rest] = text.split(";").map((part) => part.trim());
  const parameters = new Map(rest.map((part) => {
    const [name = "", value = ""] = part.split("=", 2);
    return [name.trim().toLowerCase(), value.trim().replace(/^"(.*)"$/, "$1")] as const;
  }));
  const quality = Number(parameters.get("q") ?? 1);
  return { type: type.toLowerCase(), parameters, quality: Number.isFinite(quality) ? quality : 0 };
}

function isAllowed(
  { type, parameters: required }: OfferedForm,
  { type: asked, parameters: given }: MediaRange,
): boolean {
  const matches = asked === type || asked === "*/*" || asked === type.replace(/\/.*/, "/*");
  const charset = given.get("charset")?.toLowerCase() ?? "utf-8";
  return matches && charset === "utf-8" &&
    Object.entries(required).every(([name, value]) => given.get(name) === value);
}
