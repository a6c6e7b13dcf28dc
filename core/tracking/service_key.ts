import { joinFlat } from "../../platform/mod.ts";

/** Names a Service: `namespace/name`. */
export type ServiceKey = string;

/** Builds the key of a Service. */
export function serviceKey(namespace: string, name: string): ServiceKey {
  return joinFlat("/", namespace, name);
}

/** Splits a key into namespace and name. */
export function splitServiceKey(key: ServiceKey): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The key of the Service to which a service port (`namespace/name:port`) belongs. */
export function serviceKeyOf(servicePort: string): ServiceKey {
  const colon = servicePort.indexOf(":");
  return colon === -1 ? servicePort : servicePort.slice(0, colon);
}
