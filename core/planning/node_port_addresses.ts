import { canonicalAddress, canonicalPrefix, type Family, familyOf, hostPrefix } from "../../platform/mod.ts";
import { LONGEST_ANNOTATION, OWN_ANNOTATIONS, quote, type Service } from "../objects/mod.ts";

/** The addresses of a node to which a service limits its node ports. */
interface NodePortAddresses {
  /** Canonical prefixes by family, sorted; empty for no address, undefined for all addresses of the family. */
  readonly prefixes: Readonly<Record<Family, readonly string[] | undefined>>;
  /** The parts of the annotation that have no effect, one sentence each. */
  readonly problems: readonly string[];
}

const UNLIMITED: NodePortAddresses = { prefixes: { IPv4: undefined, IPv6: undefined }, problems: [] };
const NOWHERE = { IPv4: [], IPv6: [] };

/** The maximum number of prefixes, since each is a rule for each node port, at which kube-proxy has none. */
const MOST_PREFIXES = 32;

/** The number of invalid entries that a problem names. */
const MOST_NAMED = 3;

/**
 * Reads the addresses of a node to which a service limits its node ports. It fails closed: entries that are invalid or too many are
 * left out, and without a valid one the node ports are at no address. A list without an entry of a family has no address of this family.
 */
export function nodePortAddressesOf({ own }: Pick<Service, "own">): NodePortAddresses {
  const text = own?.nodePortAddresses;
  if (text === undefined) return UNLIMITED;
  const annotation = `annotation ${OWN_ANNOTATIONS.nodePortAddresses}`,
    consequence = "the node ports are at no address";
  if (text.length > LONGEST_ANNOTATION) {
    const problem = `${annotation} is longer than ${LONGEST_ANNOTATION} characters; ${consequence}`;
    return { prefixes: NOWHERE, problems: [problem] };
  }
  const entries = text.split(/[,\n]/).map((entry) => entry.trim()).filter((entry) => entry !== "");
  if (entries.length === 0) return { prefixes: NOWHERE, problems: [`${annotation} lists no address; ${consequence}`] };
  const prefixes = new Set<string>(), invalid: string[] = [], surplus = new Set<string>();
  for (const entry of entries) {
    const prefix = readEntry(entry);
    if (prefix === undefined) invalid.push(entry);
    else if (prefixes.size < MOST_PREFIXES) prefixes.add(prefix);
    else if (!prefixes.has(prefix)) surplus.add(prefix);
  }
  const ofFamily = (family: Family) => {
    const own = [...prefixes].filter((prefix) => familyOf(prefix) === family).sort();
    return own.some((prefix) => prefix.endsWith("/0")) ? undefined : own;
  };
  return {
    prefixes: { IPv4: ofFamily("IPv4"), IPv6: ofFamily("IPv6") },
    problems: [
      ...(invalid.length === 0
        ? []
        : [`${annotation}: ${named(invalid)}; ${prefixes.size === 0 ? consequence : "ignored"}`]),
      ...(surplus.size === 0
        ? []
        : [`${annotation} has more than ${MOST_PREFIXES} prefixes; ignored after these: ${surplus.size}`]),
    ],
  };
}

/** A prefix, or an address, which stands for itself alone. */
function readEntry(text: string): string | undefined {
  if (text.includes("/")) return canonicalPrefix(text);
  const address = canonicalAddress(text);
  return address === undefined ? undefined : hostPrefix(address);
}

function named(invalid: readonly string[]): string {
  const shown = invalid.slice(0, MOST_NAMED).map(quote).join(", "), more = invalid.length - MOST_NAMED;
  if (invalid.length === 1) return `${shown} is not an IP address or a CIDR`;
  return `${shown}${more > 0 ? ` and ${more} more` : ""} are neither IP addresses nor CIDRs`;
}
