/** Sources of CA bundles, the Secrets and ConfigMaps of users: what is in them, and which of them are watched. */
import { messageOf } from '../../json/abort.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { pick, uniqueBy } from '../../json/json.ts';
import { ALLOW_DIRECT_INJECTION, CA_BUNDLE_KEY, TLS_CERT_KEY } from '../annotations.ts';
import { textOf, textsOf } from '../secret-data.ts';
import { MAX_BUNDLE_BYTES } from '../authority/authority.ts';
import { SOURCE_ANNOTATIONS, sourceName, type Consent, type SourceRef } from './request.ts';
import { splitCertificates, toCertificatePem, type CertificatePem } from '../x509/pem.ts';

export interface SourceObject extends KubeObject {
  /** Values of a Secret are base64, values of a ConfigMap are text. */
  readonly data?: Readonly<Record<string, string>>;
  /** Of a ConfigMap, base64: values that are not UTF-8. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

export type BundleState =
  /** Not known yet. A change notification follows. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unusable'; readonly message: string }
  /** `until`: a certificate in it must go then. */
  | { readonly kind: 'bundle'; readonly pem: CertificatePem; readonly until?: Date };

export function toSourceObject(source: SourceObject, key?: string): SourceObject {
  const { metadata = {}, data = {}, binaryData = {} } = source;
  const only = (from: Readonly<Record<string, string>>, keys: readonly string[]) =>
    Object.fromEntries(Object.entries(from).filter(([key]) => keys.includes(key)));
  const keys = key === undefined ? [CA_BUNDLE_KEY, TLS_CERT_KEY] : [key];
  return {
    ...pick(source, 'apiVersion', 'kind'),
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion'),
      annotations: only(metadata.annotations ?? {}, SOURCE_ANNOTATIONS),
    },
    data: { ...only(data, keys), ...textsOf(only(binaryData, keys)) },
  };
}

/** Takes `ca.crt`, or a CA in `tls.crt`, only with the consent of the owner: an annotation cannot reveal a Secret. */
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
        ? `or its Secret does not exist yet: cert-manager annotates the Secret with ${annotation}: "${value}"`
        : `does not exist or does not consent: its owner annotates it with ${annotation}: "${value}"`,
    );

  if (ref.key !== undefined) {
    const named = valueOf(source, ref, ref.key);
    return named === undefined ? unusable(`lacks ${ref.key}`) : parse(ref.key, named, now, unusable);
  }
  const bundle = valueOf(source, ref, CA_BUNDLE_KEY);
  const [key, text] =
    bundle === undefined || bundle.trim() === ''
      ? ([TLS_CERT_KEY, valueOf(source, ref, TLS_CERT_KEY)] as const)
      : ([CA_BUNDLE_KEY, bundle] as const);
  if (key === TLS_CERT_KEY && annotation !== ALLOW_DIRECT_INJECTION)
    return unusable(`lacks ${CA_BUNDLE_KEY}`);
  if (text === undefined) return unusable(`has neither ${CA_BUNDLE_KEY} nor ${TLS_CERT_KEY}`);
  return parse(key, text, now, unusable);
}

/** @param pem undefined: the connection relies on the CAs of the operating system */
export const bundleOfApiServer = (pem: string | undefined, now: Date): BundleState => {
  const unusable = unusableOf('the connection of Gatehouse to the API server');
  return pem === undefined ? unusable('does not specify a CA') : parse('its CA', pem, now, unusable);
};

type Unusable = (problem: string) => BundleState;

const unusableOf =
  (what: string): Unusable =>
  (problem) => ({ kind: 'unusable', message: `${what} ${problem}` });

function parse(key: string, text: string, now: Date, unusable: Unusable): BundleState {
  try {
    const certificates = splitCertificates(text);
    if (certificates.length === 0) return unusable(`lacks a PEM certificate in ${key}`);
    if (key === TLS_CERT_KEY && !certificates.every(({ ca }) => ca))
      return unusable(`lacks ${CA_BUNDLE_KEY}, and its ${key} is not a CA`);
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

const valueOf = ({ data = {} }: SourceObject, { kind }: SourceRef, key: string): string | undefined =>
  kind === 'ConfigMap' ? data[key] : textOf(data, key);

export interface SourceDemand {
  readonly namespace: string | undefined;
  readonly ref: SourceRef;
}

/** Cluster-scoped targets have a separate share, because only administrators create them. */
const MAX_OF_CLUSTER = 200;
const MAX_OF_NAMESPACES = 200;
const MAX_OF_NAMESPACE = 10;

export const OVER_QUOTA =
  `is not read: the targets of a namespace may name ${MAX_OF_NAMESPACE} sources, ` +
  `those of all namespaces ${MAX_OF_NAMESPACES}, and cluster-scoped ones ${MAX_OF_CLUSTER}; let targets share a source`;

/** Each costs a watch, and every user can name one: every namespace gets one before any gets a second one. */
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
