/** The slots and numbers of endpoints in nftables mode, which are a matter of history. */

/** An element of a map of endpoints: frontend or port, slot and endpoint. */
const SLOT = /^(\S+(?: \. \d+)?) \. (\d+) : (\S+ \. \d+)$/;

/** The name of a chain that service ports with session affinity share, up to the numbers. */
const SHARED_CHAIN = /\b(affinity-to-(?:tcp|udp|sctp)-\d+-)([\d.-]+)/g;
/** The name of a map with the endpoints of some numbers, up to these. */
const SHARED_MAP = /\b(endpoints-(?:tcp|udp|sctp)-\d+)-\d+/;
/** The number of an endpoint in a rule of a chain of its own. */
const NUMBER = /( mod 65536 seed \S+) offset \d+/g;

/** A text with the number of endpoints in the names of shared chains, in place of the endpoints' numbers. */
export function withoutNumbers(text: string): string {
  const count = (runs: string) =>
    runs.split(".").reduce((sum, run) => {
      const [first = 0, last = first] = run.split("-").map(Number);
      return sum + last - first + 1;
    }, 0);
  return text.replace(SHARED_CHAIN, (_, start: string, runs: string) => `${start}${count(runs)}`).replace(NUMBER, "$1");
}

/** The name of a set or map, the same for all maps with the endpoints of some numbers. */
export function withoutBlock(name: string): string {
  return name.replace(SHARED_MAP, "$1");
}

/** The rules of a chain, unless their numbers follow from its name. */
export function rulesToCompare(name: string, rules: readonly string[]): readonly string[] {
  return name.search(SHARED_CHAIN) === -1 ? rules.map(withoutNumbers) : [];
}

/** Elements of a map, sorted, with the endpoints of each frontend in the order of their names. */
export function withSortedSlots(elements: Iterable<string>): string[] {
  const others: string[] = [], slots = new Map<string, string[]>();
  for (const element of elements) {
    const [, frontend, , endpoint] = SLOT.exec(element) ?? [];
    if (frontend === undefined) {
      others.push(withoutNumbers(element));
      continue;
    }
    const known = slots.get(frontend) ?? [];
    slots.set(frontend, known);
    known.push(endpoint!);
  }
  const ordered = [...slots].flatMap(([frontend, endpoints]) =>
    endpoints.sort().map((endpoint, i) => `${frontend} . ${i} : ${endpoint}`)
  );
  return [...others, ...ordered].sort();
}
