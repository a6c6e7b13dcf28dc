import { solid } from "../../platform/solid.ts";

/** Names a Service: `namespace/name`. */
export type ServiceKey = string;

/** The key of the Service of that namespace and name. */
export function serviceKey(namespace: string, name: string): ServiceKey {
  return solid("/", namespace, name);
}
