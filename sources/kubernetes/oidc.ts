import { type Clock, errorText, readTextWithin, unlessAborted, withDeadline } from "../../platform/mod.ts";
import { type AuthProviderSection, MOST_FILE_BYTES, type PluginCredentials, type RunningPlugin } from "./access.ts";

/** The answers of an issuer together must not take longer, in milliseconds. */
const DEADLINE_MS = 30_000;
/** A token that expires within this time is replaced (client-go: 10 s). */
const EARLY_MS = 10_000;
/** The discovery document, and the answer with the tokens, are some kilobytes. */
const MOST_ANSWER_BYTES = 2 ** 20;

/**
 * Starts the auth-provider `oidc` of a kubeconfig, as client-go has it: an expired ID token is replaced with the refresh token.
 * The new tokens are not written to the kubeconfig. Its CA is read from `idp-certificate-authority(-data)`.
 * @throws Error if the auth-provider is another one, which client-go no longer has either
 */
export function oidcProvider({ where, name, config }: AuthProviderSection, clock: Clock): RunningPlugin {
  const at = `${where}: auth-provider "${name ?? ""}"`;
  if (name !== "oidc") throw new Error(`${at} is not supported; use exec`);
  let tokens = { idToken: config["id-token"], refreshToken: config["refresh-token"] };
  let isRefused = false;
  let pending: Promise<PluginCredentials> | undefined;

  const refresh = async (): Promise<void> => {
    const issuer = config["idp-issuer-url"], id = config["client-id"], { refreshToken } = tokens;
    const missing = Object.entries({ "refresh-token": refreshToken, "idp-issuer-url": issuer, "client-id": id })
      .flatMap(([field, value]) => value ? [] : [field]);
    if (missing.length > 0 || !issuer || !id || !refreshToken) {
      throw new Error(`the ID token is missing or has expired, and cannot be renewed without ${missing.join(", ")}`);
    }
    const certificates = await issuerCertificates(config);
    const client = Deno.createHttpClient(certificates === undefined ? {} : { caCerts: [certificates] });
    try {
      const late = new Error(`${issuer} did not answer within ${DEADLINE_MS / 1000} s`);
      const answer = await withDeadline(clock, DEADLINE_MS, late, new AbortController().signal, async (signal) => {
        const issued = { id, secret: config["client-secret"], refreshToken };
        return await requestTokens(client, await tokenEndpoint(client, issuer, signal), issued, signal);
      });
      // Some issuers accept a refresh token only once.
      tokens = { idToken: answer.idToken, refreshToken: answer.refreshToken ?? refreshToken };
      isRefused = false;
    } finally {
      client.close();
    }
  };

  const current = async (): Promise<PluginCredentials> => {
    try {
      const { idToken } = tokens;
      if (isRefused || !idToken || expiryMsOf(idToken) < clock.now() + EARLY_MS) await refresh();
    } catch (error) {
      throw new Error(`${at}: ${errorText(error)}`, { cause: error });
    }
    return { authorization: `Bearer ${tokens.idToken}` };
  };
  return {
    credentials(signal) {
      pending ??= current().finally(() => pending = undefined);
      return unlessAborted(pending, signal);
    },
    forget() {
      // Without a refresh token, the same one is sent again: the API server may accept it later.
      isRefused = tokens.refreshToken !== undefined;
    },
  };
}

async function issuerCertificates(config: AuthProviderSection["config"]): Promise<string | undefined> {
  const data = config["idp-certificate-authority-data"], file = config["idp-certificate-authority"];
  if (data) return new TextDecoder().decode(Uint8Array.fromBase64(data));
  return file ? await readTextWithin(file, MOST_FILE_BYTES) : undefined;
}

/** When a token expires (JWT, RFC 7519), in milliseconds since 1970. Throws if it is no JWT with a time. */
function expiryMsOf(token: string): number {
  const payload = token.split(".")[1] ?? "";
  let exp: unknown;
  try {
    exp = JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(payload, { alphabet: "base64url" }))).exp;
  } catch {
    // Named below.
  }
  if (typeof exp !== "number") throw new Error("the ID token is no JWT with a time of expiry");
  return exp * 1000;
}

/** The URL at which an issuer gives tokens (OpenID Connect Discovery 1.0). */
async function tokenEndpoint(client: Deno.HttpClient, issuer: string, signal: AbortSignal): Promise<string> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const { token_endpoint: endpoint } = await requestJson(client, url, { signal });
  if (typeof endpoint !== "string") throw new Error(`${url} names no token_endpoint`);
  return endpoint;
}

/**
 * Exchanges a refresh token (RFC 6749, section 6). As in Go's oauth2, an issuer that does not take the secret from the header gets
 * it in the body.
 */
async function requestTokens(
  client: Deno.HttpClient,
  url: string,
  { id, secret, refreshToken }: {
    readonly id: string;
    readonly secret: string | undefined;
    readonly refreshToken: string;
  },
  signal: AbortSignal,
): Promise<{ readonly idToken: string; readonly refreshToken: string | undefined }> {
  const grant = { grant_type: "refresh_token", refresh_token: refreshToken };
  const ask = (fields: Record<string, string>, authorization: [string, string][]) =>
    requestJson(client, url, {
      method: "POST",
      headers: [
        ["content-type", "application/x-www-form-urlencoded"],
        ["accept", "application/json"],
        ...authorization,
      ],
      body: new URLSearchParams(fields).toString(),
      signal,
    });
  const inBody = () => ask({ ...grant, client_id: id, ...(secret ? { client_secret: secret } : {}) }, []);
  const inHeader = (secret: string) => {
    const pair = [id, secret].map(encodeURIComponent).join(":");
    return ask(grant, [["authorization", `Basic ${btoa(pair)}`]]);
  };
  const answer = secret ? await inHeader(secret).catch(inBody) : await inBody();
  if (typeof answer.id_token !== "string") {
    throw new Error(`${url} gave no ID token (was the scope openid requested at login?)`);
  }
  expiryMsOf(answer.id_token);
  return {
    idToken: answer.id_token,
    refreshToken: typeof answer.refresh_token === "string" ? answer.refresh_token : undefined,
  };
}

/** Sends a request and returns the JSON object of its answer. Throws if it fails; the error has no token. */
async function requestJson(
  client: Deno.HttpClient,
  url: string,
  request: RequestInit,
): Promise<Record<string, unknown>> {
  const response = await fetch(url, { ...request, client, redirect: "manual" });
  let text = "", bytes = 0;
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_ANSWER_BYTES) throw new Error(`${url} answered more than ${MOST_ANSWER_BYTES / 2 ** 20} MiB`);
    text += decoder.decode(chunk, { stream: true });
  }
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // Not JSON: the status says more.
  }
  const fields = typeof answer === "object" && answer !== null ? answer as Record<string, unknown> : undefined;
  if (!response.ok || fields === undefined) {
    const reason = [fields?.error, fields?.error_description].filter((part) => typeof part === "string").join(": ");
    throw new Error(`${url} answered ${response.status}${reason && ` (${reason})`}`);
  }
  return fields;
}
