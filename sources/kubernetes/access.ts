import { readTextWithinSync } from "../../platform/mod.ts";

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

/** Normalizes an API server's URL; `http` by default, as in client-go. Throws an Error that starts with `where`. */
export function serverUrl(text: string, where: string): string {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:") || url.search !== "") {
    throw new Error(`${where}: ${JSON.stringify(text)} is not the URL of an API server (https://HOST:PORT)`);
  }
  return `${url.protocol}//${url.host}${url.pathname}`.replace(/\/+$/, "");
}

/** A part of the credentials: inline, or in a file that may be rotated. */
export type Material = { readonly text: string } | { readonly file: string };

/** A reader of a material's text. */
interface MaterialReader {
  /** The current text; the same string while it is unchanged. Throws an Error that names the file. */
  read(): string;
  /** Makes the next `read` read the file even if it looks unchanged. */
  forget(): void;
}

/** The maximum size of a kubeconfig, and of a file that it names, in bytes. */
export const MOST_FILE_BYTES = 16 * 2 ** 20;

/**
 * A reader for `material`. A file is read again when its modification time changes; while it is missing or empty (during its
 * replacement) the last text is used.
 */
export function createMaterialReader(material: Material): MaterialReader {
  if ("text" in material) return { read: () => material.text, forget: () => {} };
  const { file } = material;
  let known: { readonly text: string; readonly modified: number } | undefined;
  return {
    read() {
      try {
        const modified = Deno.statSync(file).mtime?.getTime() ?? 0;
        if (known?.modified === modified) return known.text;
        const text = readTextWithinSync(file, MOST_FILE_BYTES);
        if (text.trim() === "") throw new Error(`${file} is empty`);
        known = { text: text === known?.text ? known.text : text, modified };
      } catch (error) {
        if (known === undefined) throw error;
      }
      return known.text;
    },
    forget() {
      if (known !== undefined) known = { text: known.text, modified: NaN };
    },
  };
}

/** The source of a kubeconfig user's credentials: a program, or an auth-provider. */
export type CredentialPlugin =
  | { readonly kind: "exec"; readonly exec: ExecSection }
  | ({ readonly kind: "auth-provider" } & AuthProviderSection);

/** The credentials from a plugin. */
export interface PluginCredentials {
  readonly authorization?: string;
  /** Client certificate and key (PEM). */
  readonly certificate?: string;
  readonly key?: string;
}

/** A credential plugin. */
export interface RunningPlugin {
  /** The last credentials, or new ones if those have expired. Rejects if the plugin fails. */
  credentials(signal: AbortSignal): Promise<PluginCredentials>;
  /** The server refused the credentials: the next call requests new ones. */
  forget(): void;
}

/** A credential plugin of a kubeconfig's user (`exec`, KEP-541). */
export interface ExecSection {
  /** The user it is for, in messages: `user "admin" in /etc/kubeconfig`. */
  readonly where: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly apiVersion: string;
  readonly installHint: string | undefined;
  /** The cluster's data, if the plugin requests it. */
  readonly cluster: ExecCluster | undefined;
}

/** The cluster's data for a plugin that requests it (`provideClusterInfo`). */
export interface ExecCluster extends Pick<Access, "server" | "ca" | "serverName" | "proxyUrl"> {
  /** The cluster's extension for plugins, of any shape. */
  readonly config: unknown;
}

/** An auth-provider of a kubeconfig's user, the predecessor of `exec`. */
export interface AuthProviderSection {
  /** The user it is for, in messages: `/etc/kubeconfig: user "admin"`. */
  readonly where: string;
  /** The provider's name, such as `oidc`. */
  readonly name: string | undefined;
  readonly config: Readonly<Record<string, string | undefined>>;
}
