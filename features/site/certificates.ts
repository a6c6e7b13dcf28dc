/** The certificates with which the nodes of a site recognize each other, and the signatures of its leaders. */
import { Buffer } from "node:buffer";
import { loadCertificateCheck } from "../../platform/mod.ts";
import type { ClientRule } from "../../kpng/server/mod.ts";
import { readTlsFiles, type TlsFiles, type TlsPaths } from "../../kpng/address/mod.ts";
import type { Leader } from "./lease.ts";
import type { SiteOptions } from "./options.ts";

/** The TLS of a server: its certificate, and the clients that it accepts. */
export interface ServerTls {
  readonly tls: TlsFiles;
  readonly clients: ClientRule;
}

/** A leader of a site, as it signs itself. */
interface Claim extends Omit<Leader, "proof"> {
  readonly site: string;
}

/** Stores the certificate that this node makes for its server. */
export interface CertificateMemory {
  /** Returns the certificate of this node's server; calls `make` for a new one if none is stored. */
  server(make: () => Promise<CertificatePair>): Promise<CertificatePair>;
}

/** The certificates of this node, read again at each use: their files are renewed. */
export interface SiteCertificates {
  /** The certificate that the Lease publishes (PEM); empty if the site's CA has signed the leader's certificate. */
  published(memory: CertificateMemory): Promise<string>;
  /** The TLS of this node as the leader of these members. */
  server(memory: CertificateMemory, members: readonly string[]): Promise<ServerTls>;
  client(leader: Leader): Promise<TlsFiles>;
  /** The signature that this node has written `leader`, which names it. Throws an Error if its certificate is not its own. */
  prove(claim: Claim): Promise<string>;
  /** Whether the node that a Lease names as the leader of a site has signed that. */
  isProven(claim: Claim, proof: string): Promise<boolean>;
}

/** Where the kubelet keeps its certificate for the API server, and its key (its `--cert-dir`). */
const KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem";
/** Where kubeadm keeps the CA that has signed it. */
const CLUSTER_CA = "/etc/kubernetes/pki/ca.crt";

/** The organization of every kubelet (Kubernetes' node authorizer). */
const NODES = "system:nodes";
const ofKubelet = (node: string) => `system:node:${node}`;
const SERVER_NAME = "leader.site.sluice.dev";

/** The certificates that a configuration selects: the kubelet's if it names no key. */
export function certificatesOf({ tlsCAFile, tlsCertFile, tlsPrivateKeyFile }: SiteFiles): SiteCertificates {
  return tlsPrivateKeyFile === ""
    ? kubeletCertificates({ ca: tlsCAFile || CLUSTER_CA, crt: tlsCertFile || KUBELET_CERTIFICATE })
    : givenCertificates({ ca: tlsCAFile, crt: tlsCertFile, key: tlsPrivateKeyFile });
}

type SiteFiles = Pick<SiteOptions, "tlsCAFile" | "tlsCertFile" | "tlsPrivateKeyFile">;

/** Reads a site's certificates from configured files; all nodes have certificates of the same CA, for servers and clients. */
function givenCertificates(paths: TlsPaths): SiteCertificates {
  const read = () => readUsable(paths);
  return {
    published: () => Promise.resolve(""),
    server: async (_memory, members) => {
      const names = [...members, ...members.map(ofKubelet)];
      return { tls: await read(), clients: { names, organization: undefined } };
    },
    async client({ node, certificate }) {
      if (certificate !== "") {
        throw new Error(`the leader ${node} uses the kubelet's certificate, this node given ones`);
      }
      return await read();
    },
    prove: async (claim) => await prove(claim, await read()),
    isProven: async (claim, proof) => await isProven(claim, proof, await read()),
  };
}

/**
 * Uses the kubelet's certificate for a site. It is a client certificate: the leader accepts only members of its site with a
 * certificate of the cluster's CA for `system:nodes`. The leader's server has a self-signed certificate; the others accept only
 * the one in the Lease, if the leader has signed it there with the kubelet's key.
 */
function kubeletCertificates({ ca, crt }: Pick<TlsPaths, "ca" | "crt">): SiteCertificates {
  const read = () => readUsable({ ca, crt, key: crt });
  return {
    published: async (memory) => (await memory.server(makeCertificate)).cert,
    async server(memory, members) {
      const { cert, key } = await memory.server(makeCertificate);
      const { ca } = await read();
      const clients = { names: members.map(ofKubelet), organization: NODES };
      return { tls: { ca, crt: cert, key }, clients };
    },
    async client({ node, certificate }) {
      if (certificate === "") throw new Error(`the leader ${node} uses given certificates, this node the kubelet's`);
      return { ...await read(), ca: certificate, serverName: SERVER_NAME };
    },
    prove: async (claim) => await prove(claim, await read(), NODES),
    isProven: async (claim, proof) => await isProven(claim, proof, await read(), NODES),
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

/** The prefix of the signed text, so that a signature made for another purpose is never valid here. */
const CONTEXT = "sluice site leader v1\n";
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** The key in a file that also has a certificate, as the kubelet's. */
const PRIVATE_KEY = /-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^-]+-----END \1-----/;

/**
 * Signs a claim with the key of this node's certificate. A token that can write the Lease is on every node; the key of a member is not.
 * The result has the certificate (DER) and the signature, both in base64, separated by a dot.
 */
export async function prove(claim: Claim, { crt, key }: TlsFiles, organization?: string): Promise<string> {
  const { createPrivateKey, sign, X509Certificate } = await import("node:crypto");
  const [own] = certificatesIn(crt).map((pem) => new X509Certificate(pem));
  if (own === undefined || key === undefined) throw new Error("a certificate and its key are needed");
  const subject = own.toLegacyObject().subject;
  if (!isOfNode(subject, claim.node, organization)) {
    const names = listOf(subject.CN).join(", ") || "nothing";
    throw new Error(`the certificate of this node has the common name ${names}, not that of node ${claim.node}`);
  }
  const privateKey = createPrivateKey(PRIVATE_KEY.exec(key)?.[0] ?? key);
  return `${own.raw.toString("base64")}.${sign("sha256", signedText(claim), privateKey).toString("base64")}`;
}

/** Whether the claim is signed with a certificate that belongs to the claim's node and was issued by the CA in these files. */
export async function isProven(claim: Claim, proof: string, { ca }: TlsFiles, organization?: string): Promise<boolean> {
  const { verify, X509Certificate } = await import("node:crypto");
  const authorities = certificatesIn(ca).map((pem) => new X509Certificate(pem));
  const [certificate = "", signature = ""] = proof.split(".");
  try {
    const shown = new X509Certificate(Buffer.from(certificate, "base64"));
    const isOfSite = authorities.some((authority) => shown.checkIssued(authority) && shown.verify(authority.publicKey));
    if (!isOfSite || !isOfNode(shown.toLegacyObject().subject, claim.node, organization)) return false;
    return verify("sha256", signedText(claim), shown.publicKey, Buffer.from(signature, "base64"));
  } catch {
    // Not a certificate, or not a key for signatures.
    return false;
  }
}

function signedText({ site, node, address, certificate }: Claim): Uint8Array {
  return new TextEncoder().encode(CONTEXT + JSON.stringify([site, node, address, certificate]));
}

/** The subject of a certificate, as node:crypto has it. */
interface Subject {
  readonly CN?: string | readonly string[];
  readonly O?: string | readonly string[];
}

/** Whether a subject names a node: as the kubelet does or by its plain name, and in the organization if one is given. */
function isOfNode({ CN, O }: Subject, node: string, organization: string | undefined): boolean {
  const names = listOf(CN);
  if (organization !== undefined) return listOf(O).includes(organization) && names.includes(ofKubelet(node));
  return names.includes(node) || names.includes(ofKubelet(node));
}

function certificatesIn(pem: string | undefined): readonly string[] {
  return pem?.match(CERTIFICATE) ?? [];
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return value === undefined ? [] : typeof value === "string" ? [value] : value;
}

/** A certificate and its private key (PEM). */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The contents of a certificate (RFC 5280, 4.1). */
interface CertificateContents {
  readonly issuer: DistinguishedName;
  readonly issuerKey: CryptoKey;
  readonly subject: DistinguishedName;
  readonly publicKey: CryptoKey;
  /** The validity, in milliseconds since 1970; `Infinity` for no end. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** Of version 3; without any, the certificate is of version 1. */
  readonly extensions: readonly Der[];
}

/** The name of an issuer or subject. */
export interface DistinguishedName {
  readonly commonName: string;
  readonly organization?: string;
}

/** Bytes in DER. */
export type Der = readonly number[];

/** The keys of all certificates here: ECDSA on the curve P-256. */
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" } as const;

/** Creates a pair of keys. */
export async function newKeys(): Promise<CryptoKeyPair> {
  return await crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]) as CryptoKeyPair;
}

/** Creates a certificate (PEM): no authority issues one for a site's server. It is signed with the issuer's key. */
export async function certificateOf(contents: CertificateContents): Promise<string> {
  const { issuer, issuerKey, subject, publicKey, fromMs, untilMs, extensions } = contents;
  const ecdsaWithSha256 = sequence(tagged(0x06, [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));
  const body = sequence(
    extensions.length > 0 ? tagged(0xa0, integer([2])) : [],
    integer([...crypto.getRandomValues(new Uint8Array(8))]),
    ecdsaWithSha256,
    nameOf(issuer),
    sequence(time(fromMs), time(untilMs)),
    nameOf(subject),
    [...new Uint8Array(await crypto.subtle.exportKey("spki", publicKey))],
    extensions.length > 0 ? tagged(0xa3, sequence(...extensions)) : [],
  );
  const raw = await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, issuerKey, Uint8Array.from(body));
  const signature = [...new Uint8Array(raw)];
  const signed = sequence(integer(signature.slice(0, 32)), integer(signature.slice(32)));
  return pem("CERTIFICATE", Uint8Array.from(sequence(body, ecdsaWithSha256, tagged(0x03, [0, ...signed]))));
}

/** Returns a private key as PEM (PKCS #8). */
export async function privateKeyPem(key: CryptoKey): Promise<string> {
  return pem("PRIVATE KEY", new Uint8Array(await crypto.subtle.exportKey("pkcs8", key)));
}

/** The extension with the purposes of a certificate. */
export function purposes(...names: readonly ("server" | "client")[]): Der {
  const ids = names.map((name) => tagged(0x06, [0x2b, 6, 1, 5, 5, 7, 3, name === "server" ? 1 : 2]));
  return extension([0x55, 0x1d, 0x25], sequence(...ids));
}

/** The extension with the other names of a subject: host names and IPv4 addresses. */
export function otherNames(...names: readonly string[]): Der {
  const entries = names.map((name) =>
    /^[\d.]+$/.test(name) ? tagged(0x87, name.split(".").map(Number)) : tagged(0x82, bytesOf(name))
  );
  return extension([0x55, 0x1d, 0x11], sequence(...entries));
}

function tagged(tag: number, content: Der): Der {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return [tag, ...size, ...content];
}

function sequence(...parts: readonly Der[]): Der {
  return tagged(0x30, parts.flat());
}

/** A positive integer from big-endian bytes, in the shortest encoding. */
function integer(bytes: Der): Der {
  const from = bytes.findIndex((byte) => byte !== 0);
  const digits = from === -1 ? [0] : bytes.slice(from);
  return tagged(0x02, digits[0]! >= 0x80 ? [0, ...digits] : digits);
}

function nameOf({ commonName, organization }: DistinguishedName): Der {
  const part = (id: number, value: string) =>
    tagged(0x31, sequence(tagged(0x06, [0x55, 0x04, id]), tagged(0x0c, bytesOf(value))));
  return sequence(organization === undefined ? [] : part(0x0a, organization), part(0x03, commonName));
}

/** A time: UTCTime, or the GeneralizedTime that stands for no end (RFC 5280, 4.1.2.5). */
function time(ms: number): Der {
  if (ms === Infinity) return tagged(0x18, bytesOf("99991231235959Z"));
  const digits = new Date(ms).toISOString().replace(/[-:T]/g, "").slice(2, 14);
  return tagged(0x17, bytesOf(`${digits}Z`));
}

function extension(id: Der, value: Der): Der {
  return sequence(tagged(0x06, id), tagged(0x04, value));
}

function bytesOf(text: string): Der {
  return [...new TextEncoder().encode(text)];
}

function pem(label: string, der: Uint8Array): string {
  const lines = der.toBase64().match(/.{1,64}/g)!;
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
