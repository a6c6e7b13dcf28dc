/**
 * The source for the nodes of a site behind one thin line: one of them, chosen by a Lease, watches the API server, and serves the
 * others with the protocol of `sluice serve`.
 *
 *   site_source.ts      the source of a node
 *   lease.ts            reads and writes the Lease
 *   elector.ts          decides who leads, from what was seen of the Lease
 *   election.ts         carries out the decisions, and reports this node's role
 *   election_state.ts   the state of that, its waits, and changes of the role
 *   election_lease.ts   reads, takes and renews the Lease, and falls back to the last leader
 *   election_follow.ts  follows a leader, and succeeds one that does not answer
 *   election_lan.ts     the election's part on the LAN
 *   role.ts             the roles of a node
 *   candidacy.ts        decides which node asks the API server first when there is no leader
 *   lan.ts              finds the leader on the LAN, and answers the others
 *   lan_state.ts        the state of that, and the limits of its work
 *   lan_ask.ts          asks, and decides which answers to believe
 *   lan_answer.ts       answers
 *   lan_messages.ts     what the nodes tell each other there
 *   datagrams.ts        the UDP socket
 *   proof.ts            signatures of what they tell
 *   memory.ts           remembers the last leader on disk
 *   feed.ts             watches the leader or the API server, as the role asks for
 *   hand_over.ts        lets several sources in turn feed one sink
 *   tee.ts              feeds two sinks
 *   server.ts           serves the other nodes while this one leads
 *   server_address.ts   the addresses of the servers
 *   certificates.ts     the certificates of the nodes
 *   x509.ts             makes certificates
 *   status.ts           reports and logs this node's part
 *
 * In: a Lease, and objects of the API server or of the leader. Out: objects, to a `SourceSink`, and to the other nodes. May
 * touch: the network, listening sockets, PEM files, and a file that is opened before the write permission is dropped.
 */
export {
  CLUSTER_CA,
  givenCertificates,
  KUBELET_CERTIFICATE,
  kubeletCertificates,
  type SiteCertificates,
} from "./certificates.ts";
export { datagramsOn } from "./datagrams.ts";
export { leaseName } from "./lease.ts";
export { createSiteSource, NO_DETAILS, type SiteSource } from "./site_source.ts";
