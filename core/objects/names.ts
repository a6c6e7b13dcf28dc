/**
 * The names of services, namespaces and ports travel into the input of kernel tools, inside quotes. The API allows DNS
 * names only; whatever holds anything else (quotes, spaces, newlines) has not been through the API and is refused.
 */
const LABEL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
const SUBDOMAIN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/;

/** What a label or name may consist of, for a problem's sentence. */
export const NAME_RULE = "letters, digits, '.', '_' and '-', starting with a letter or digit";

/** Whether a value can be the name of a service, a namespace or a port: at most 63 characters. */
export function isLabel(value: unknown): value is string {
  return typeof value === "string" && LABEL.test(value);
}

/** Whether a value can be the name of a slice or a node: at most 253 characters. */
export function isObjectName(value: unknown): value is string {
  return typeof value === "string" && SUBDOMAIN.test(value);
}
