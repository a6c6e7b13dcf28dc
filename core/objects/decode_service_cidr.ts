import { readPrefixes } from "./addresses.ts";
import type { Decoded } from "./decoded.ts";
import { readIdentity } from "./identity.ts";
import { createProblems } from "./problems.ts";
import { type RawObject, rawObject } from "./raw.ts";
import type { ServiceCIDR } from "./service_cidr.ts";

/** Reduces a ServiceCIDR. As in kube-proxy, one that is not ready, or on its way out, counts like any other (KEP-1880). */
export function decodeServiceCIDR(raw: RawObject): Decoded {
  const { ref, problem } = readIdentity("ServiceCIDR", raw);
  if (ref === undefined) return { ref, object: undefined, problems: [problem!] };
  const problems = createProblems();
  const cidrs = readPrefixes(rawObject(raw.spec).cidrs, "spec.cidrs", problems);
  const object: ServiceCIDR = { kind: "ServiceCIDR", name: ref.name, cidrs };
  return { ref, object, problems: problems.sentences() };
}
