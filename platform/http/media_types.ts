/** A representation that a handler offers: its media type and the parameters that a request must include. */
export interface MediaType {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * Returns the offered media types that an Accept header (RFC 9110, 12.5.1) allows, preferred first; without the header, the
 * first one offered. The header must include all parameters of an offered type. Other parameters are ignored, except
 * `charset`, which must be UTF-8.
 */
export function acceptedTypes(accept: string, offered: readonly MediaType[]): readonly MediaType[] {
  if (accept.trim() === "") return offered.slice(0, 1);
  const ranges = accept.split(",").map(readRange).filter(({ quality }) => quality > 0);
  const byQuality = ranges.toSorted((a, b) => b.quality - a.quality);
  return byQuality.flatMap((range) => offered.filter((type) => isAllowed(type, range)));
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
  { type, parameters: required }: MediaType,
  { type: accepted, parameters: given }: MediaRange,
): boolean {
  const matches = accepted === type || accepted === "*/*" || accepted === type.replace(/\/.*/, "/*");
  const charset = given.get("charset")?.toLowerCase() ?? "utf-8";
  return matches && charset === "utf-8" &&
    Object.entries(required).every(([name, value]) => given.get(name) === value);
}
