/**
 * Groups of a large list of endpoints. Each is a chain of its own: a change writes two of these, instead of one chain with thousands of
 * rules, and a first packet crosses some hundred rules.
 */
import { hashOf } from "../../core/model/mod.ts";

/** Some endpoints of a list, in its order. */
export interface EndpointGroup {
  /** Two characters that identify it among the groups of its list: a chain's name has room for no more. */
  readonly suffix: string;
  readonly endpoints: readonly string[];
}

/** Lists up to this length are not divided. */
const LARGE = 200;
/** The size of groups, on average and within a factor of the square root of 2. */
const GROUP_SIZE = 64;
/** The most groups: 36 ** 2 would be possible. */
const MOST_GROUPS = 1024;

const known = new WeakMap<readonly string[], readonly EndpointGroup[]>();

/** The groups of a list; undefined if it is not large. An endpoint stays in its group while the length does not double. */
export function endpointGroups(endpoints: readonly string[]): readonly EndpointGroup[] | undefined {
  if (endpoints.length <= LARGE) return undefined;
  let groups = known.get(endpoints);
  if (groups === undefined) known.set(endpoints, groups = divided(endpoints));
  return groups;
}

function divided(endpoints: readonly string[]): readonly EndpointGroup[] {
  const count = Math.min(2 ** Math.round(Math.log2(endpoints.length / GROUP_SIZE)), MOST_GROUPS);
  const members = Array.from({ length: count }, (): string[] => []);
  for (const endpoint of endpoints) members[hashOf(endpoint) % count]!.push(endpoint);
  return members
    .map((endpoints, i) => ({ suffix: i.toString(36).toUpperCase().padStart(2, "0"), endpoints }))
    .filter(({ endpoints }) => endpoints.length > 0);
}
