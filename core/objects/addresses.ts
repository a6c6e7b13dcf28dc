import { canonicalAddress, canonicalPrefix, compact } from "../../platform/mod.ts";
import { listOf, type Problems } from "./problems.ts";
import { isAbsent, quote } from "./raw.ts";

/**
 * The addresses of a list in canonical form, each once. What is none becomes a problem; empty strings are passed over, as
 * kube-proxy does because the API lets them through.
 */
export function readAddresses(value: unknown, field: string, problems: Problems): readonly string[] {
  return readEach(value, field, "IP address", canonicalAddress, problems);
}

/**
 * The prefixes of a list in canonical form, each once. Spaces around them do not count: the API's validation lets them
 * through (kube-proxy's MapCIDRsByIPFamily).
 */
export function readPrefixes(value: unknown, field: string, problems: Problems): readonly string[] {
  return readEach(value, field, "prefix", (text) => canonicalPrefix(text.trim()), problems);
}

function readEach(
  value: unknown,
  field: string,
  what: string,
  canonical: (text: string) => string | undefined,
  problems: Problems,
): readonly string[] {
  const found: string[] = [];
  for (const item of listOf(value, field, problems)) {
    if (isAbsent(item) || (typeof item === "string" && item.trim() === "")) continue;
    const text = typeof item === "string" ? canonical(item) : undefined;
    if (text === undefined) problems.add(`${field} holds ${quote(item)}, which is no ${what}; it is left out`);
    else if (!found.includes(text)) found.push(text);
  }
  return compact(found);
}
