/**
 * Reports of sources other than the cluster's objects: requests, the link to the server, and the node's role in a site.
 *
 * In: nothing. Out: types. May touch: nothing.
 */

/** A change of one request stream of a source. Plain data. */
export type LinkEvent =
  /** A request was answered. */
  | { readonly type: "answered" }
  /** An event of the cluster arrived, or a message that there was none, such as a bookmark. */
  | { readonly type: "received" }
  /** A request failed, and is sent again within this time. */
  | { readonly type: "failed"; readonly error: string; readonly retryInMs: number }
  /** The stream is no longer used, whether it failed or not. */
  | { readonly type: "ended" };

/** Reports an event of a stream; `stream` names it within the source (`services`), and `server` the server it goes to. */
export type ReportLink = (stream: string, server: string, event: LinkEvent) => void;

/** The role of this node in its site (docs/sites.md). Plain data. */
export interface SiteStatus {
  /** The name of the site. */
  readonly name: string;
  /** `alone` watches the API server although there is a site; `undecided` knows no leader yet. */
  readonly role: "leader" | "follower" | "alone" | "undecided";
  /** Whether the Lease confirms it; without the API server, the last leader stays. */
  readonly isConfirmed: boolean;
  /** The node that leads; undefined if none is known. */
  readonly leader: string | undefined;
  /** HOST:PORT of its server; undefined if it is this node, or unknown. */
  readonly address: string | undefined;
  /** The origin of the state; undefined before the first answer. */
  readonly from: "leader" | "api" | undefined;
  /** How often the site's leader has changed, as its Lease counts. */
  readonly transitions: number;
  /** When this node's role, or its leader, last changed; in milliseconds since 1970. */
  readonly sinceMs: number;
}

/** The outcome of one HTTP request to the API server, for metrics. */
export interface ApiRequestOutcome {
  readonly method: "GET" | "POST" | "PATCH";
  /** `host:port` of the API server, as in its URL. */
  readonly host: string;
  /** The HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** The duration of the request in milliseconds; undefined for a watch, which is reported when its response begins. */
  readonly durationMs: number | undefined;
  /** The size of the request body. */
  readonly requestBytes: number;
  /** The size of the body of a successful response; undefined for a watch and for other responses. */
  readonly responseBytes: number | undefined;
}
