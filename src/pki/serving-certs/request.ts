import { parseDuration } from '../../api/duration.ts';
import { parseRenewalPoint } from '../../api/renewal-point.ts';
import { isDnsSubdomain, type KubeObject } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import {
  annotationProblem,
  CERT_PREFIXES,
  CLIENT_CERT_SECRET_NAME,
  SERVING_CERT_DURATION,
  SERVING_CERT_KEY_ALGORITHM,
  SERVING_CERT_KEYSTORE_PASSWORD,
  SERVING_CERT_OUTPUTS,
  SERVING_CERT_RENEW_AFTER,
  SERVING_CERT_REPLACE_SECRET,
  SERVING_CERT_SECRET_NAME,
} from '../annotations.ts';
import {
  InvalidAnnotation,
  listOf,
  type NameRules,
  servingCertAddresses,
  servingCertNames,
  shortNames,
} from './dns-names.ts';
import {
  DEFAULT_SERVING_CERT_LIFETIME,
  MAX_SERVING_CERT_LIFETIME,
  MIN_SERVING_CERT_LIFETIME,
} from '../durations.ts';
import type { LeafPurpose } from '../x509/certificate-fields.ts';
import { DEFAULT_KEY_ALGORITHM, isKeyAlgorithm, KEY_ALGORITHMS, type KeyAlgorithm } from '../x509/keys.ts';
import { openshiftSecretName } from './openshift.ts';
import { isOutput, type Output, OUTPUTS } from './outputs.ts';

export interface Service extends KubeObject {
  readonly spec?: {
    readonly type?: string;
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
  };
}

export interface RequestRules extends NameRules {
  /** Whether Gatehouse also honours the annotations of OpenShift's service-ca. */
  readonly openshift: boolean;
  /** The longest life of a cert, in milliseconds: it prolongs the retirement of a CA for the whole cluster. */
  readonly maxLifetimeMs: number;
  /** The percentage of its life after which a cert is renewed, unless its Service says otherwise. */
  readonly renewAfter: number;
}

export interface AcceptedRequest {
  readonly kind: 'request';
  readonly purpose: LeafPurpose;
  readonly secretName: string;
  readonly dnsNames: readonly string[];
  readonly omittedNames: readonly string[];
  readonly addresses: readonly string[];
  readonly lacksAddresses: boolean;
  readonly algorithm: KeyAlgorithm;
  readonly lifetimeMs: number;
  readonly renewAfter: number;
  readonly outputs: readonly Output[];
  /** The Secret with the password of the key stores, in the Service's namespace; undefined: the default password. */
  readonly keystorePassword: { readonly secretName: string; readonly key: string } | undefined;
  /** Whether Gatehouse may delete a Secret of this Service that it cannot update. */
  readonly replaceSecret: boolean;
  /** Whose annotation made the request. `openshift`: Gatehouse reports the outcome in OpenShift's annotations. */
  readonly via: 'gatehouse' | 'openshift';
  readonly labels?: Readonly<Record<string, string>>;
  readonly own?: boolean;
  /** An annotation of the Service is ignored. */
  readonly unused?: string | undefined;
}

/** Retries do not fix an `invalid` request. */
export type ServingCertRequest =
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly message: string; readonly via: AcceptedRequest['via'] }
  | AcceptedRequest;

/** With the annotations for this purpose, all under the prefix of serving certs. */
function askingFor(purpose: LeafPurpose, service: Pick<Service, 'metadata'>): Service {
  if (purpose === 'serving') return service;
  const annotations = Object.entries(service.metadata?.annotations ?? {}).flatMap(([name, value]) =>
    name.startsWith(CERT_PREFIXES[purpose])
      ? [[name.replace(CERT_PREFIXES[purpose], CERT_PREFIXES.serving), value] as const]
      : [],
  );
  return { ...service, metadata: { ...service.metadata, annotations: Object.fromEntries(annotations) } };
}

export function claimOf(
  service: Pick<Service, 'metadata'>,
  { openshift }: Pick<RequestRules, 'openshift'>,
  purpose: LeafPurpose = 'serving',
): Pick<AcceptedRequest, 'secretName' | 'via'> | undefined {
  const annotations = askingFor(purpose, service).metadata?.annotations ?? {};
  const own = annotations[SERVING_CERT_SECRET_NAME]?.trim();
  if (own !== undefined) return { secretName: own, via: 'gatehouse' };
  const theirs = openshift ? openshiftSecretName(annotations) : undefined;
  return theirs === undefined ? undefined : { secretName: theirs, via: 'openshift' };
}

export function servingCertRequest(
  service: Service,
  rules: RequestRules,
  purpose: LeafPurpose = 'serving',
): ServingCertRequest {
  const claim = claimOf(service, rules, purpose);
  // One of the two requests of a Service reports it.
  const unused =
    purpose === 'serving' ? annotationProblem('Service', service.metadata?.annotations) : undefined;
  if (claim === undefined)
    return unused === undefined ? { kind: 'none' } : { kind: 'invalid', message: unused, via: 'gatehouse' };
  const { secretName, via } = claim;
  try {
    if (purpose === 'client' && claimOf(service, rules)?.secretName === secretName)
      throw new InvalidAnnotation(
        `${CLIENT_CERT_SECRET_NAME}: ${quote(secretName)} already gets the serving cert of the Service: name another Secret`,
      );
    return { ...orderOf(askingFor(purpose, service), claim, rules), purpose, unused };
  } catch (error) {
    if (!(error instanceof InvalidAnnotation)) throw error;
    const message = error.message.replaceAll(CERT_PREFIXES.serving, CERT_PREFIXES[purpose]);
    return { kind: 'invalid', message, via };
  }
}

function orderOf(
  service: Service,
  { secretName, via }: Pick<AcceptedRequest, 'secretName' | 'via'>,
  rules: RequestRules,
): Omit<AcceptedRequest, 'purpose'> {
  const { name = '', namespace = '', annotations = {} } = service.metadata ?? {};
  if (!isDnsSubdomain(secretName))
    throw new InvalidAnnotation(
      `${SERVING_CERT_SECRET_NAME}: ${quote(secretName)} cannot be the name of a Secret: use lower-case letters, digits, "-" and ".", ` +
        'at most 253, beginning and ending with a letter or digit',
    );
  const { type, clusterIP = '', clusterIPs = [clusterIP] } = service.spec ?? {};
  const headless = clusterIP === 'None';
  const fixed = headless || type === 'ExternalName' ? [] : clusterIPs;
  const named = { name, namespace, headless, annotations, clusterIPs: fixed };
  const addresses = servingCertAddresses(named, rules);
  return {
    kind: 'request',
    secretName,
    dnsNames: servingCertNames(named, rules),
    omittedNames: shortNames(named, rules).omitted,
    addresses: addresses ?? [],
    lacksAddresses: addresses === undefined,
    algorithm: algorithmOf(annotations[SERVING_CERT_KEY_ALGORITHM]),
    lifetimeMs: Math.min(lifetimeOf(annotations[SERVING_CERT_DURATION]), rules.maxLifetimeMs),
    renewAfter: renewAfterOf(annotations[SERVING_CERT_RENEW_AFTER], rules),
    outputs: outputsOf(annotations[SERVING_CERT_OUTPUTS]),
    keystorePassword: passwordOf(annotations[SERVING_CERT_KEYSTORE_PASSWORD]),
    replaceSecret: annotations[SERVING_CERT_REPLACE_SECRET]?.toLowerCase() === 'true',
    via,
  };
}

/** Undefined: its annotation is invalid. */
export function requestedLifetime(
  service: Pick<Service, 'metadata'>,
  { maxLifetimeMs }: Pick<RequestRules, 'maxLifetimeMs'>,
  purpose: LeafPurpose = 'serving',
): number | undefined {
  const { metadata } = askingFor(purpose, service);
  try {
    return Math.min(lifetimeOf(metadata?.annotations?.[SERVING_CERT_DURATION]), maxLifetimeMs);
  } catch {
    return undefined;
  }
}

function algorithmOf(text: string = DEFAULT_KEY_ALGORITHM): KeyAlgorithm {
  if (isKeyAlgorithm(text)) return text;
  throw new InvalidAnnotation(
    `${SERVING_CERT_KEY_ALGORITHM}: ${quote(text)} is not one of ${KEY_ALGORITHMS.join(', ')}`,
  );
}

function lifetimeOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_SERVING_CERT_LIFETIME;
  const lifetimeMs = parseDuration(text);
  if (
    lifetimeMs === undefined ||
    lifetimeMs < MIN_SERVING_CERT_LIFETIME ||
    lifetimeMs > MAX_SERVING_CERT_LIFETIME
  )
    throw new InvalidAnnotation(
      `${SERVING_CERT_DURATION}: ${quote(text)} is not a duration from 1h to 365d such as 90d or 36h`,
    );
  return lifetimeMs;
}

function renewAfterOf(text: string | undefined, { renewAfter }: RequestRules): number {
  const percent = text === undefined ? renewAfter : parseRenewalPoint(text);
  if (percent === undefined)
    throw new InvalidAnnotation(
      `${SERVING_CERT_RENEW_AFTER}: ${quote(text ?? '')} is not a whole percentage from 20% to 90% of the lifetime such as 50%`,
    );
  return percent;
}

/** In the order of `OUTPUTS`, so that equal requests compare as equal. */
function outputsOf(text = ''): readonly Output[] {
  const wanted = listOf(text);
  const unknown = wanted.find((output) => !isOutput(output));
  if (unknown !== undefined)
    throw new InvalidAnnotation(
      `${SERVING_CERT_OUTPUTS}: ${quote(unknown)} is not one of ${OUTPUTS.join(', ')}`,
    );
  return OUTPUTS.filter((output) => wanted.includes(output));
}

function passwordOf(text: string | undefined): AcceptedRequest['keystorePassword'] {
  if (text === undefined) return undefined;
  const [secretName = '', key = 'password', ...rest] = text.split('/');
  if (!isDnsSubdomain(secretName) || !/^[-._a-zA-Z0-9]+$/.test(key) || rest.length > 0)
    throw new InvalidAnnotation(
      `${SERVING_CERT_KEYSTORE_PASSWORD}: ${quote(text)} is neither the name of a Secret in this namespace nor a name and a key ` +
        'such as keystore/password',
    );
  return { secretName, key };
}

export interface SecretClaim {
  readonly name: string;
  readonly uid: string;
  /** RFC 3339; undefined if the API server has not stored the Service. */
  readonly createdAt: string | undefined;
  /** Gatehouse's own Service takes precedence. Otherwise any user who can create a Service could break its webhooks. */
  readonly own: boolean;
}

/** The oldest Service, then the smaller uid: every replica must give the Secret to the same Service. */
export const firstClaim = <Claim extends SecretClaim>(claims: readonly Claim[]): Claim | undefined =>
  claims.toSorted((a, b) => (hasPrecedence(a, b) ? -1 : 1))[0];

export function hasPrecedence(a: SecretClaim, b: SecretClaim): boolean {
  if (a.own !== b.own) return a.own;
  const [left, right] = [timeOf(a), timeOf(b)];
  return left === right ? a.uid < b.uid : left < right;
}

function timeOf({ createdAt }: SecretClaim): number {
  const time = Date.parse(createdAt ?? '');
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}
