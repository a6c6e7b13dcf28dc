import { canonicalAddress, compact, familyOf } from "../../platform/mod.ts";
import { listOf, type Problems } from "./problems.ts";
import { isAbsent, quote, type RawObject } from "./raw.ts";

/**
 * The cluster IPs of a service: at most one of each family, none for a headless service or one without any. Where
 * `ipFamilies` says which family an address should be of, it must be.
 */
export function readClusterIPs(spec: RawObject, problems: Problems): readonly string[] {
  let told = listOf(spec.clusterIPs, "spec.clusterIPs", problems);
  if (told.length === 0 && !isAbsent(spec.clusterIP)) told = [spec.clusterIP];
  if (spec.clusterIP === "None" || told[0] === "None") return [];
  const families = listOf(spec.ipFamilies, "spec.ipFamilies", problems);

  const found: string[] = [];
  told.forEach((item, index) => {
    if (isAbsent(item) || item === "") return;
    const problem = (what: string) => problems.add(`its cluster IP ${quote(item)} ${what}; it is left out`);
    const address = typeof item === "string" ? canonicalAddress(item) : undefined;
    if (address === undefined) return problem("is no IP address");
    const family = familyOf(address);
    const wanted = families[index];
    if (!isAbsent(wanted) && wanted !== family) {
      return problem(`is not of the family ${quote(wanted)} of spec.ipFamilies`);
    }
    if (found.some((other) => familyOf(other) === family)) return problem(`is its second one of family ${family}`);
    found.push(address);
  });
  return compact(found);
}
