import { type Clock, sleep } from "../../platform/mod.ts";
import { type ApiClient, readText, sendObject } from "../kubernetes/mod.ts";
import { NAME, tokenSecret } from "./objects.ts";

/** A token of the service account. */
export interface Token {
  readonly token: string;
  /** The time of its expiry as the API server writes it; undefined for a token that lasts as long as its Secret. */
  readonly expires: string | undefined;
}

const FILLED_WITHIN_MS = 10_000;
const POLL_MS = 200;

/** Waits until the API server has filled the Secret with a token. */
export async function readSecretToken(
  api: ApiClient,
  namespace: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Token> {
  const { name } = tokenSecret(namespace).metadata;
  const endMs = clock.monotonic() + FILLED_WITHIN_MS;
  for (;;) {
    const path = `/api/v1/namespaces/${namespace}/secrets/${name}`;
    const secret = JSON.parse(await readText(api, { resource: "secrets", path }, signal)) as {
      readonly data?: { readonly token?: string };
    };
    if (secret.data?.token) return { token: atob(secret.data.token), expires: undefined };
    if (clock.monotonic() >= endMs) {
      throw new Error(
        `Secret ${namespace}/${name} has no token after ${
          FILLED_WITHIN_MS / 1000
        } s: the controller manager does not ` +
          "issue tokens (see its log, or use --token-duration)",
      );
    }
    await sleep(clock, POLL_MS, signal);
  }
}

/** Requests a token that expires (TokenRequest API); the API server may shorten the duration, in seconds. */
export async function requestToken(
  api: ApiClient,
  namespace: string,
  expirationSeconds: number,
  signal: AbortSignal,
): Promise<Token> {
  const answer = await sendObject(api, {
    verb: "create",
    resource: "serviceaccounts/token",
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${NAME}/token`,
    object: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { expirationSeconds } },
  }, signal) as { readonly status?: { readonly token?: string; readonly expirationTimestamp?: string } };
  const { token, expirationTimestamp } = answer.status ?? {};
  if (!token) throw new Error(`${api.server} answered the TokenRequest without a token`);
  return { token, expires: expirationTimestamp };
}
