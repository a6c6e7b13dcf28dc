/** Slots of endpoints in the elements of nftables mode. */

/** An element of a map of endpoints: frontend, slot and endpoint. */
const SLOT = /^(\S+ \. \d+) \. (\d+) : (\S+ \. \d+)$/;

/**
 * Elements of a map, sorted, with the endpoints of each frontend in the order of their names: which of them has which slot is a
 * matter of history.
 */
export function withSortedSlots(elements: Iterable<string>): string[] {
  const others: string[] = [], slots = new Map<string, { readonly numbers: string[]; readonly endpoints: string[] }>();
  for (const element of elements) {
    const [, frontend, number, endpoint] = SLOT.exec(element) ?? [];
    if (frontend === undefined) {
      others.push(element);
      continue;
    }
    const known = slots.get(frontend) ?? { numbers: [], endpoints: [] };
    slots.set(frontend, known);
    known.numbers.push(number!);
    known.endpoints.push(endpoint!);
  }
  const ordered = [...slots].flatMap(([frontend, { numbers, endpoints }]) => {
    numbers.sort((a, b) => Number(a) - Number(b));
    return endpoints.sort().map((endpoint, i) => `${frontend} . ${numbers[i]} : ${endpoint}`);
  });
  return [...others, ...ordered].sort();
}
