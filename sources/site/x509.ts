/** X.509 certificates, made here: that of a site's server, for which no authority issues one. */

/** A certificate and its private key (PEM). */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The contents of a certificate (RFC 5280, 4.1). */
export interface CertificateContents {
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

/** Creates a certificate (PEM), signed with the issuer's key. */
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

/** The extension that makes a certificate an authority's. */
export const AUTHORITY: Der = extension([0x55, 0x1d, 0x13], true, sequence(tagged(0x01, [0xff])));

/** The extension with the purposes of a certificate. */
export function purposes(...names: readonly ("server" | "client")[]): Der {
  const ids = names.map((name) => tagged(0x06, [0x2b, 6, 1, 5, 5, 7, 3, name === "server" ? 1 : 2]));
  return extension([0x55, 0x1d, 0x25], false, sequence(...ids));
}

/** The extension with the other names of a subject: host names and IPv4 addresses. */
export function otherNames(...names: readonly string[]): Der {
  const entries = names.map((name) =>
    /^[\d.]+$/.test(name) ? tagged(0x87, name.split(".").map(Number)) : tagged(0x82, bytesOf(name))
  );
  return extension([0x55, 0x1d, 0x11], false, sequence(...entries));
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

function extension(id: Der, critical: boolean, value: Der): Der {
  return sequence(tagged(0x06, id), ...(critical ? [tagged(0x01, [0xff])] : []), tagged(0x04, value));
}

function bytesOf(text: string): Der {
  return [...new TextEncoder().encode(text)];
}

function pem(label: string, der: Uint8Array): string {
  const lines = btoa(String.fromCharCode(...der)).match(/.{1,64}/g)!;
  return `-----BEGIN ${label}-----\n${lines.join("\n")}\n-----END ${label}-----\n`;
}
