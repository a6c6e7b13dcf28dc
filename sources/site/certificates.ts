/** The certificates with which the nodes of a site recognize each other. */
import { loadCertificateCheck } from "../kubernetes/mod.ts";
import { readTlsFiles, type TlsFiles, type TlsPaths } from "../../kpng/transport/mod.ts";
import type { Leader } from "./lease.ts";
import type { SiteMemory } from "./memory.ts";
import { type Proofs, proofsOf } from "./proof.ts";
import { certificateOf, type CertificatePair, newKeys, otherNames, privateKeyPem, purposes } from "./x509.ts";

/** The TLS of a server: its certificate, and whom it lets in. */
export interface ServerTls {
  readonly tls: TlsFiles;
  /** The organization that a client's certificate must name; any certificate of the CA if undefined. */
  readonly clientOrganization?: string;
}

/** The certificates of this node, read again at each use: their files are renewed. */
export interface SiteCertificates {
  /** The certificate that the Lease publishes (PEM); empty if the site's CA has signed the leader's certificate. */
  published(memory: Pick<SiteMemory, "server">): Promise<string>;
  server(memory: Pick<SiteMemory, "server">): Promise<ServerTls>;
  client(leader: Leader): Promise<TlsFiles>;
  /** The signatures for what the nodes tell each other on the LAN. */
  proofs(): Promise<Proofs>;
}

/** Where the kubelet keeps its certificate for the API server, and its key (its `--cert-dir`). */
export const KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/** Where kubeadm keeps the CA that has signed it. */
export const CLUSTER_CA = "/etc/kubernetes/pki/ca.crt";

/** The organization of every kubelet (Kubernetes' node authorizer). */
const NODES = "system:nodes";
/** The name in the certificates that leaders make themselves. */
const SERVER_NAME = "leader.site.sluice.dev";

/** Reads the certificates of a site from files that were given; all nodes have some of the same CA, for servers and clients. */
export function givenCertificates(paths: TlsPaths): SiteCertificates {
  const read = () => readUsable(paths);
  return {
    published: () => Promise.resolve(""),
    server: async () => ({ tls: await read() }),
    async client({ node, certificate }) {
      if (certificate !== "") {
        throw new Error(`the leader ${node} uses the kubelet's certificate, this node given ones`);
      }
      return await read();
    },
    proofs: async () => await proofsOf(await read(), () => true),
  };
}

/**
 * The kubelet's certificate for a site. It is one for clients, so a node shows it to the leader, which lets in exactly the members
 * of `system:nodes` with a certificate of the cluster's CA. The leader shows one that it has made itself; the others accept
 * exactly the one in the Lease, which only nodes may write, or that the leader has signed on the LAN with the kubelet's key.
 */
export function kubeletCertificates({ ca, crt }: Pick<TlsPaths, "ca" | "crt">): SiteCertificates {
  const read = () => readUsable({ ca, crt, key: crt });
  return {
    published: async (memory) => (await memory.server(makeCertificate)).cert,
    async server(memory) {
      const { cert, key } = await memory.server(makeCertificate);
      const { ca } = await read();
      return { tls: { ca, crt: cert, key }, clientOrganization: NODES };
    },
    async client({ node, certificate }) {
      if (certificate === "") throw new Error(`the leader ${node} uses given certificates, this node the kubelet's`);
      return { ...await read(), ca: certificate, serverName: SERVER_NAME };
    },
    proofs: async () =>
      await proofsOf(
        await read(),
        (organizations, names, node) => organizations.includes(NODES) && names.includes(`system:node:${node}`),
      ),
  };
}

/** Makes a certificate for a server, signed by itself. It has no end: the clock of a node may be wrong after a power failure. */
async function makeCertificate(): Promise<CertificatePair> {
  const { publicKey, privateKey } = await newKeys();
  const name = { commonName: SERVER_NAME };
  const cert = await certificateOf({
    issuer: name,
    issuerKey: privateKey,
    subject: name,
    publicKey,
    fromMs: 0,
    untilMs: Infinity,
    extensions: [otherNames(SERVER_NAME), purposes("server")],
  });
  return { cert, key: await privateKeyPem(privateKey) };
}

/** Reads a CA, a certificate and its key. Throws an Error that names the problem. */
async function readUsable(paths: TlsPaths): Promise<TlsFiles> {
  const files = readTlsFiles(paths, "--site-tls");
  if (files?.ca === undefined || files.crt === undefined || files.key === undefined) {
    throw new Error("--site-tls-ca, --site-tls-crt and --site-tls-key are needed");
  }
  const check = await loadCertificateCheck();
  check(files.crt, files.key);
  return files;
}
