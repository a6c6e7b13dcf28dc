import type { ExecSection } from "./exec_plugin.ts";

/** The source of a kubeconfig user's credentials: a program, or an auth-provider supported by client-node. */
export type CredentialPlugin =
  | { readonly kind: "exec"; readonly exec: ExecSection }
  | ({ readonly kind: "auth-provider" } & AuthProviderSection);

/** A kubeconfig whose current user has an auth-provider. */
export interface AuthProviderSection {
  /** The path of the kubeconfig file, for its relative paths. */
  readonly path: string;
  /** The file's text. */
  readonly text: string;
}

/** The credentials from a plugin. */
export interface PluginCredentials {
  /** The Authorization header. */
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
