/** All settings, each with its description, default and parser. */
import { parseDevUrl } from './dev-url.ts';
import { PARTS } from './parts.ts';
import { parseDuration } from './quantities.ts';
import {
  bodyLimit,
  caLifetime,
  certLifetime,
  clientNames,
  choice,
  choices,
  count,
  countOrZero,
  dnsLabel,
  dnsName,
  dnsSuffixes,
  limit,
  namespaceNames,
  namespaceSuffixes,
  port,
  renewalPoint,
  text,
  yesOrNo,
} from './values.ts';

/** @param bare the value of a flag without a value; undefined: the flag requires a value */
const setting = <T, Default extends string | undefined>(
  description: string,
  fallback: Default,
  parse: (value: string) => T,
  bare?: string,
) => ({ description, default: fallback, bare, parse });

const flag = (description: string) => setting(description, 'false', yesOrNo, 'true');

export const SETTINGS = {
  kubeconfig: setting('kubeconfig file; without it, the service account of the pod', undefined, text),
  context: setting('context of the kubeconfig', undefined, text),
  namespace: setting('namespace in which Gatehouse runs and keeps its state', 'gatehouse-system', dnsLabel),
  service: setting('Service through which the API server reaches Gatehouse', 'gatehouse', dnsLabel),
  'service-port': setting('port of that Service', '443', port),
  identity: setting('name of this replica in the lease; must differ between replicas', undefined, text),
  host: setting('address to listen on', '0.0.0.0', text),
  port: setting('port for webhooks (HTTPS)', '8443', port),
  'operations-port': setting('port for health, readiness and metrics (HTTP)', '8080', port),
  'status-page': flag(
    'serve a status page at /status of the operations port, to users who may get that path (RBAC)',
  ),
  'compile-policies': flag(
    'hand what CEL can express to the API server: checks as ValidatingAdmissionPolicies, changes as MutatingAdmissionPolicies (Kubernetes 1.36)',
  ),
  'policy-reports': flag(
    'write the violations that the audit finds as Reports (openreports.io), or as PolicyReports where these are not served',
  ),
  'strict-policies': flag(
    'refuse AdmissionPolicies that cannot be enforced as they are; without it, the answer has a warning',
  ),
  exemplars: flag('add trace exemplars to the admission histogram, for scrapers that request OpenMetrics'),
  'connection-timeout': setting('timeout for each request, and until the first one starts', '120s', limit),
  'max-connections': setting(
    'connections to the webhook port at a time; above this limit, the least useful one is closed',
    '1500',
    count,
  ),
  'client-ca': setting(
    'file with CA certificates (PEM): webhook clients must present a certificate of one of them; read again when it changes',
    undefined,
    text,
  ),
  'client-names': setting(
    'common names or DNS names that those certificates may have, comma-separated; without it, any',
    '',
    clientNames,
  ),
  'client-ca-for': setting(
    'which requests need such a certificate: admission or all; the API server presents none for conversions',
    'admission',
    choice(['admission', 'all']),
  ),
  'max-admission-reviews': setting(
    'maximum number of concurrent admission reviews; one webhook gets at most half, and the API server retries the rest',
    '1000',
    count,
  ),
  'conversion-body-limit': setting('size limit of a ConversionReview (admission: 20MiB)', '64MiB', bodyLimit),
  'drain-delay': setting('how long to continue serving after SIGTERM', '10s', parseDuration),
  'lease-duration': setting('how long an unrenewed lease stays valid', '12s', parseDuration),
  'renew-deadline': setting('how long a leader tries to renew before it steps down', '8s', parseDuration),
  'retry-period': setting(
    'interval between renewals of the lease; candidates read it twice as often',
    '2s',
    parseDuration,
  ),
  'restore-settle': setting('delay of the final sweep after a restore window closes', '65s', parseDuration),
  'unique-settle': setting(
    'how long the API server may take to store an admitted write: its --request-timeout plus 10s',
    '70s',
    limit,
  ),
  'cluster-domain': setting(
    'DNS domain of the cluster; without it, from /etc/resolv.conf',
    undefined,
    dnsName,
  ),
  namespaces: setting(
    'namespaces in which Gatehouse reads and writes objects, comma-separated, in addition to its own; without it, all',
    '',
    namespaceNames,
  ),
  without: setting(
    'parts that do not run, comma-separated: certificates (of annotated Services), injection, conversions, restores',
    '',
    choices(PARTS),
  ),
  compat: setting(
    'additional annotations to honour: openshift, cert-manager, or both, comma-separated',
    '',
    choices(['openshift', 'cert-manager']),
  ),
  'serving-cert-dns-suffixes': setting(
    'domains in which Services may request additional DNS names, comma-separated',
    '',
    dnsSuffixes,
  ),
  'serving-cert-namespace-suffixes': setting(
    'such domains for the Services of one namespace only, comma-separated: shop=shop.example.com,pay=pay.example.com',
    '',
    namespaceSuffixes,
  ),
  'serving-cert-short-names': setting(
    'whether certificates also have the names without svc (db, db.prod); a Service can choose with an annotation',
    'false',
    yesOrNo,
  ),
  'serving-cert-max-duration': setting(
    'longest lifetime of a certificate that a Service may request; an old CA stays trusted this long after a rotation',
    '90d',
    certLifetime,
  ),
  'serving-cert-cluster-ips': flag(
    'whether a Service may request its cluster IPs in its certificate, with an annotation',
  ),
  'serving-cert-renew-after': setting(
    'how much of its lifetime a certificate has passed when it is renewed, 20% to 90%; a Service can choose with an annotation',
    '66%',
    renewalPoint,
  ),
  'serving-cert-on-removal': setting(
    'what happens to the Secret after the Service stops requesting it: retain or delete',
    'retain',
    choice(['retain', 'delete']),
  ),
  'serving-cert-max-endpoints': setting(
    'the leader checks which certificate the endpoints of a Service present, if its namespace has at most this many; 0: never',
    '10000',
    countOrZero,
  ),
  'serving-cert-reload-time': setting(
    'how long a server may take to load a renewed certificate before the leader reports it as stale',
    '2m',
    limit,
  ),
  'ca-secret': setting(
    'Secret in this namespace with your own CA (tls.crt, tls.key, ca.crt); without it, Gatehouse creates one',
    undefined,
    dnsName,
  ),
  'ca-lifetime': setting('lifetime of a CA that Gatehouse creates; it rotates at half', '730d', caLifetime),
  'ca-name-constraints': setting(
    'whether new CAs of Gatehouse may sign only names in svc, the cluster domain and the suffixes above',
    'false',
    yesOrNo,
  ),
  'ca-propagation-wait': setting('wait before a CA that is trusted everywhere signs', '10m', parseDuration),
  'dev-url': setting(
    'serve from this machine: webhook entries of the cluster use this URL (https://host:port) until the process ends',
    undefined,
    parseDevUrl,
  ),
  handlers: setting('folder with handlers in TypeScript, or a package that exports them', undefined, text),
  'log-level': setting('least severe level in the log', 'info', choice(['debug', 'info', 'warn', 'error'])),
} as const;

export type SettingName = keyof typeof SETTINGS;

export type Value<Name extends SettingName> =
  | ReturnType<(typeof SETTINGS)[Name]['parse']>
  | ((typeof SETTINGS)[Name]['default'] extends string ? never : undefined);
