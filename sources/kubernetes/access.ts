import type { Material } from "./material.ts";
import type { CredentialPlugin } from "./plugin.ts";

/** Where the server is and where each part of the credentials comes from. */
export interface Access {
  readonly server: string;
  readonly ca: Material | undefined;
  readonly certificate: Material | undefined;
  readonly key: Material | undefined;
  readonly token: Material | undefined;
  readonly proxyUrl: string | undefined;
  /** Headers that never change: basic authentication, impersonation. */
  readonly headers: readonly [name: string, value: string][];
  /** What gives the user its credentials, where the kubeconfig does not hold them. */
  readonly plugin: CredentialPlugin | undefined;
  /** What the operator should know about it, one sentence each. */
  readonly warnings: readonly string[];
}

/**
 * An API server's URL in the form that paths are appended to. As with client-go, `http` is meant where no scheme is
 * given. Throws an Error that names `where` it was found.
 */
export function serverUrl(text: string, where: string): string {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:") || url.search !== "") {
    throw new Error(`${where}: ${JSON.stringify(text)} is no URL of an API server (https://HOST:PORT)`);
  }
  return `${url.protocol}//${url.host}${url.pathname}`.replace(/\/+$/, "");
}
