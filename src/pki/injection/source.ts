/** Sources of CA bundles, the Secrets and ConfigMaps of users: what is in them, and which of them are watched. */
import { messageOf } from '../../json/error-message.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { pick, uniqueBy } from '../../json/objects.ts';
import { ALLOW_DIRECT_INJECTION, CA_BUNDLE_KEY, TLS_CERT_KEY } from '../annotations.ts';
import { textOf } from '../secret-data.ts';
import { MAX_BUNDLE_BYTES } from '../authority/bundle.ts';
import { SOURCE_ANNOTATIONS, sourceName, type Consent, type SourceRef } from './request.ts';
import { splitCertificates, toCertificatePem, type CertificatePem } from '../x509/pem.ts';

/** The stored part of a source: its certificates and its consent. A private key in it is dropped on arrival. */
export interface SourceObject extends KubeObject {
  /** Values of a Secret are base64, values of a ConfigMap are text. */
  readonly data?: Readonly<Record<string, string>>;
}

/** The bundle to inject. */
export type BundleState =
  /** Not known yet. A change notification follows. */
  | { readonly kind: 'unknown' }
  /** `message` says what is wrong with the source, and how to fix it. */
  | { readonly kind: 'unusable'; readonly message: string }
  | { readonly kind: 'bundle'; readonly pem: CertificatePem };

/** Drops everything from a source except its public parts. */
export function toSourceObject(source: SourceObject): SourceObject {
  const { metadata = {}, data = {} } = source;
  const only = (from: Readonly<Record<string, string>>, keys: readonly string[]) =>
    Object.fromEntries(Object.entries(from).filter(([key]) => keys.includes(key)));
  return {
    ...pick(source, 'apiVersion', 'kind'),
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion'),
      annotations: only(metadata.annotations ?? {}, SOURCE_ANNOTATIONS),
    },
    data: only(data, [CA_BUNDLE_KEY, TLS_CERT_KEY]),
  };
}

/**
 * The bundle of a source whose owner consents: key `ca.crt`, or `tls.crt` if that is a CA. Like cainjector, it takes
 * only `ca.crt` if the annotations are those of cert-manager. Without the consent
 * annotation on the source itself, Gatehouse takes nothing from it. So a user cannot read a Secret by pointing an
 * annotation at it.
 */
export function bundleOfSource(
  ref: SourceRef,
  consent: Consent,
  source: SourceObject | undefined,
  now: Date,
): BundleState {
  const unusable = unusableOf(sourceName(ref));
  const { annotation, value } = consent;
  // The same message for all cases: an annotation must not reveal which Secrets exist.
  if (source?.metadata?.annotations?.[annotation] !== value)
    return unusable(
      ref.kind === 'Certificate'
        ? `does not exist or has no Secret yet: cert-manager annotates the Secret with ${annotation}: "${value}"`
        : `does not exist or does not consent: its owner annotates it with ${annotation}: "${value}"`,
    );

  const bundle = valueOf(source, ref, CA_BUNDLE_KEY);
  const [key, text] =
    bundle === undefined || bundle.trim() === ''
      ? ([TLS_CERT_KEY, valueOf(source, ref, TLS_CERT_KEY)] as const)
      : ([CA_BUNDLE_KEY, bundle] as const);
  if (key === TLS_CERT_KEY && annotation !== ALLOW_DIRECT_INJECTION)
    return unusable(`has no ${CA_BUNDLE_KEY}`);
  if (text === undefined) return unusable(`has neither ${CA_BUNDLE_KEY} nor ${TLS_CERT_KEY}`);
  return parse(key, text, now, unusable);
}

/** @param pem undefined: the connection to the API server relies on the CAs of the operating system */
export const bundleOfApiServer = (pem: string | undefined, now: Date): BundleState => {
  const unusable = unusableOf('the connection of Gatehouse to the API server');
  return pem === undefined ? unusable('names no CA') : parse('its CA', pem, now, unusable);
};

type Unusable = (problem: string) => BundleState;

const unusableOf =
  (what: string): Unusable =>
  (problem) => ({ kind: 'unusable', message: `${what} ${problem}` });

/** Keeps each certificate once, and drops expired ones. */
function parse(key: string, text: string, now: Date, unusable: Unusable): BundleState {
  try {
    const certificates = splitCertificates(text);
    if (certificates.length === 0) return unusable(`has no PEM certificate in ${key}`);
    if (key === TLS_CERT_KEY && !certificates.every(({ ca }) => ca))
      return unusable(`has no ${CA_BUNDLE_KEY}, and its ${key} is no CA`);
    const living = certificates.filter(({ validToDate }) => validToDate > now);
    if (living.length === 0) return unusable(`holds only certificates that have expired, in ${key}`);
    const pem = toCertificatePem(uniqueBy(living, ({ fingerprint256 }) => fingerprint256));
    return pem.length > MAX_BUNDLE_BYTES
      ? unusable(
          `has ${pem.length} bytes of certificates in ${key}: at most ${MAX_BUNDLE_BYTES} are injected`,
        )
      : { kind: 'bundle', pem };
  } catch (error) {
    return unusable(`is broken in ${key}: ${messageOf(error)}`);
  }
}

function valueOf({ data = {} }: SourceObject, { kind }: SourceRef, key: string): string | undefined {
  return kind === 'ConfigMap' ? data[key] : textOf(data, key);
}

/** A target names a source. */
export interface SourceDemand {
  /** Of the target; undefined: it is cluster-scoped. */
  readonly namespace: string | undefined;
  readonly ref: SourceRef;
}

/** Cluster-scoped targets have a share of their own: only administrators create them. */
const MAX_OF_CLUSTER = 200;
const MAX_OF_NAMESPACES = 200;
const MAX_OF_NAMESPACE = 10;

export const OVER_QUOTA =
  `is not read: the targets of a namespace may name ${MAX_OF_NAMESPACE} sources, ` +
  `those of all namespaces ${MAX_OF_NAMESPACES}, and cluster-scoped ones ${MAX_OF_CLUSTER}; let targets share a source`;

/**
 * The sources to watch, by name: each costs a watch, and every user who may write a ConfigMap can name one. Every namespace gets one before any gets a second one. Otherwise those that are
 * watched already stay.
 */
export function admitSources(
  demands: readonly SourceDemand[],
  isWatched: (name: string) => boolean,
): ReadonlyMap<string, SourceRef> {
  const admitted = new Map<string, SourceRef>();
  const inOrder = (refs: readonly SourceRef[]) =>
    [...new Map(refs.map((ref) => [sourceName(ref), ref]))].sort(
      ([a], [b]) => Number(isWatched(b)) - Number(isWatched(a)) || (a < b ? -1 : 1),
    );
  const byNamespace = Map.groupBy(demands, ({ namespace }) => namespace);
  const refsOf = (namespace: string | undefined) =>
    inOrder((byNamespace.get(namespace) ?? []).map(({ ref }) => ref));

  for (const [name, ref] of refsOf(undefined).slice(0, MAX_OF_CLUSTER)) admitted.set(name, ref);
  const most = admitted.size + MAX_OF_NAMESPACES;
  const namespaces = [...byNamespace.keys()].filter((namespace) => namespace !== undefined).map(refsOf);
  for (let round = 0; round < MAX_OF_NAMESPACE; round++) {
    const wanted = new Map(inOrder(namespaces.flatMap((refs) => refs[round]?.[1] ?? [])));
    for (const [name, ref] of wanted) if (admitted.has(name) || admitted.size < most) admitted.set(name, ref);
  }
  return admitted;
}
