import { type CertificateCheck, errorText } from "../../platform/mod.ts";
import { ApiError } from "../../core/objects/mod.ts";
import type { Credentials } from "./credentials.ts";

/** A request of an HTTP client, as `fetch` takes it. */
export interface HttpRequest extends Pick<RequestInit, "signal" | "redirect"> {
  readonly method: string;
  readonly headers: [name: string, value: string][];
  readonly body: string | undefined;
}

/** An HTTP client with its open connections. */
export interface HttpClient {
  /** As `fetch`. */
  send(url: string, request: HttpRequest): Promise<Response>;
  /** Closes the idle connections, and the others after their responses. */
  close(): void;
}

/** Creates a client with these credentials, whose certificate `check` examines first. Throws an ApiError. */
export function createHttpClient(
  credentials: Credentials,
  check: CertificateCheck | undefined,
  /** For a server whose certificate has the name in `serverName`. */
  connectToNamed: ((credentials: Credentials) => HttpClient) | undefined,
): HttpClient {
  const { caCerts, certificate, key, proxyUrl } = credentials;
  try {
    if (certificate !== undefined && key !== undefined) check?.(certificate, key);
    if (connectToNamed) return connectToNamed(credentials);
    const common: Deno.CreateHttpClientOptions = {
      // With HTTP/1.1 every watch has its own connection, and a dead one is closed with its watch; with HTTP/2 the next
      // request would use the same dead connection.
      http2: false,
      ...(caCerts === undefined ? {} : { caCerts: [caCerts] }),
      ...(proxyUrl === undefined ? {} : { proxy: { url: proxyUrl } }),
    };
    const client = certificate === undefined || key === undefined
      ? Deno.createHttpClient(common)
      : Deno.createHttpClient({ ...common, cert: certificate, key });
    return { send: (url, request) => fetch(url, { ...request, client }), close: () => client.close() };
  } catch (error) {
    const message = `cannot use the credentials for the API server: ${errorText(error)}`;
    throw new ApiError("credentials", message, { cause: error });
  }
}
