import type { Material } from "./material.ts";
import type { CredentialPlugin } from "./plugin.ts";

/** The API server's URL and the origin of each part of the credentials. */
export interface Access {
  readonly server: string;
  readonly ca: Material | undefined;
  /** The name in the server's certificate, if it is not the host in its URL (`tls-server-name`). */
  readonly serverName: string | undefined;
  readonly certificate: Material | undefined;
  readonly key: Material | undefined;
  readonly token: Material | undefined;
  readonly proxyUrl: string | undefined;
  /** Headers that never change: basic authentication, impersonation. */
  readonly headers: readonly [name: string, value: string][];
  /** The plugin that provides the credentials, if the kubeconfig does not contain them. */
  readonly plugin: CredentialPlugin | undefined;
  /** Warnings for the operator, one sentence each. */
  readonly warnings: readonly string[];
}

/**
 * Normalizes an API server's URL so that paths can be appended. As in client-go, the default scheme is `http`. Throws an Error
 * that starts with `where`.
 */
export function serverUrl(text: string, where: string): string {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:") || url.search !== "") {
    throw new Error(`${where}: ${JSON.stringify(text)} is not the URL of an API server (https://HOST:PORT)`);
  }
  return `${url.protocol}//${url.host}${url.pathname}`.replace(/\/+$/, "");
}
