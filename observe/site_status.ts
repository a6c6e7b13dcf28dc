/** The part of this node in its site (docs/sites.md). Plain data. */
export interface SiteStatus {
  /** The name of the site. */
  readonly name: string;
  /** `alone` watches the API server although there is a site; `undecided` knows no leader yet. */
  readonly role: "leader" | "follower" | "alone" | "undecided";
  /** Whether the Lease says so; without the API server, the last leader stays. */
  readonly isConfirmed: boolean;
  /** The node that leads; undefined if none is known. */
  readonly leader: string | undefined;
  /** HOST:PORT of its server; undefined if it is this node, or not known. */
  readonly address: string | undefined;
  /** What the state comes from; undefined before the first answer. */
  readonly from: "leader" | "api" | undefined;
  /** How often the site's leader has changed, as its Lease counts. */
  readonly transitions: number;
  /** When this node's role, or its leader, last changed; in milliseconds since 1970. */
  readonly sinceMs: number;
}
