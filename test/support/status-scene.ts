/** A status page without a cluster: it listens on a real socket, and tests can change the report. */
import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { statusContent } from '../../src/cli/inspect/page/status-page.ts';
import type { ServingCertRow } from '../../src/cli/inspect/status/report/serving-certs.ts';
import type { StatusReport } from '../../src/cli/inspect/status/report/status-report.ts';
import type { TargetKindName } from '../../src/pki/injection/request.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { buildOperationsServer } from '../../src/server/operations-server.ts';
import { createAccessCheck } from '../../src/server/status-page/access.ts';

const NOW = new Date('2026-03-01T12:00:00.000Z');
const DAY_MS = 86_400_000;
export const day = (days: number): string => new Date(NOW.getTime() + days * DAY_MS).toISOString();

const cert = (name: string, from: number, to: number, renew: number): ServingCertRow => ({
  state: 'Valid',
  namespace: 'shop',
  name,
  service: name.replace('-tls', ''),
  dnsNames: [],
  notBefore: day(from),
  notAfter: day(to),
  renewAt: day(renew),
  signedBy: '9f2c41d7',
});

const target = (kind: TargetKindName, name: string) => ({
  kind,
  name,
  source: 'authority' as const,
  state: 'Current' as const,
});

const policy = (name: string, enforcement: 'Deny' | 'Warn', violations: number, checkedAt: string) => ({
  name,
  enforcement,
  violations,
  checkedAt,
  ready: 'True' as const,
  webhooksInstalled: 'True' as const,
  ...audited,
});

const STALE = 'stale CA bundle in spec.conversion.webhook.clientConfig';
const audited = { objects: undefined, incomplete: undefined, message: undefined };

export const SCENE: StatusReport = {
  server: 'https://10.0.0.1:6443',
  version: 'v1.36.0',
  namespace: 'gatehouse-system',
  checkedAt: NOW.toISOString(),
  healthy: false,
  without: [],
  namespaces: undefined,
  attention: [
    {
      part: 'injectionTargets',
      object: 'CustomResourceDefinition disks.infra.example.com',
      message: STALE,
    },
    {
      part: 'restoreWindows',
      object: 'RestoreWindow drill-2026-02',
      message: 'the restore has left 2 violations',
      command: 'gatehouse restore status drill-2026-02',
    },
  ],
  leader: {
    unread: [],
    state: 'Held',
    holder: 'gatehouse-7d4b9-x2x4z',
    acquiredAt: day(-9),
    renewedAt: day(0),
    transitions: 3,
    replicas: ['x2x4z', 'k8kqp'].map((end, index) => ({
      name: `gatehouse-7d4b9-${end}`,
      process: 'serve' as const,
      ready: true,
      leads: index === 0,
      node: `node-${end}`,
      image: 'gatehouse:0.1.0',
      restarts: index,
      waiting: undefined,
    })),
  },
  authority: {
    unread: [],
    source: 'Secret',
    phase: 'propagating',
    generations: [
      { ...{ id: '5be07a13', state: 'pending', expired: false }, notBefore: day(-1), notAfter: day(729) },
      {
        id: '9f2c41d7',
        state: 'active',
        expired: false,
        rotationAt: day(-1),
        notBefore: day(-366),
        notAfter: day(364),
      },
      { ...{ id: '03ac88f0', state: 'retiring', expired: false }, notBefore: day(-700), notAfter: day(30) },
    ],
  },
  servedCerts: {
    unread: [],
    checkedAt: day(0),
    endpoints: { current: 41, stale: 2, foreign: 0, unreachable: 1 },
    items: [
      {
        namespace: 'shop',
        service: 'orders',
        secret: 'orders-tls',
        pods: ['orders-0', 'orders-1'],
        count: 2,
        since: day(-1),
        notAfter: day(20),
      },
    ],
  },
  servingCerts: {
    unread: [],
    items: [
      { ...cert('legacy-tls', -363, 2, -1), state: 'RenewalDue' },
      cert('checkout-tls', -100, 265, 143),
      cert('stock-tls', -20, 345, 223),
    ],
  },
  injectionTargets: {
    unread: [],
    items: [
      target('MutatingWebhookConfiguration', 'gatehouse'),
      target('ValidatingWebhookConfiguration', 'gatehouse'),
      {
        ...target('CustomResourceDefinition', 'disks.infra.example.com'),
        state: 'Stale',
        message: STALE,
      },
      { ...target('ConfigMap', 'trust'), namespace: 'shop' },
    ],
  },
  admissionPolicies: {
    unread: [],
    items: [policy('serials', 'Deny', 0, day(-0.01)), policy('servers', 'Warn', 12, day(-0.02))],
  },
  restoreWindows: { unread: [], items: [], total: 2 },
  userControllers: { unread: [], items: [], omitted: 0, former: [] },
  handlers: [{ name: 'quota', mutates: false, validates: true }],
};

const condition = { lastTransitionTime: day(-20), message: 'said so' };

export const WINDOWS: readonly RestoreWindow[] = [
  {
    metadata: { name: 'velero-nightly', creationTimestamp: day(-0.05) },
    spec: {
      principals: [{ user: 'system:serviceaccount:velero:velero' }],
      expiresAt: day(0.1),
      reason: 'the disk array of fra1 was replaced',
    },
    status: { phase: 'Open', openedAt: day(-0.05) },
  },
  {
    metadata: { name: 'drill-2026-02', creationTimestamp: day(-20) },
    spec: { principals: [{ user: 'alice' }], expiresAt: day(-19.9) },
    status: {
      phase: 'CompletedWithViolations',
      closeReason: 'Manual',
      openedAt: day(-20),
      closedAt: day(-19.95),
      lastSweep: {
        startedAt: day(-0.02),
        finishedAt: day(-0.02),
        objectsScanned: 48_210,
        interim: false,
      },
      violations: {
        total: 2,
        items: ['web-1', 'web-2'].map((name) => ({
          policy: 'servers',
          reference: 'datacenter',
          field: 'spec.datacenter',
          reason: 'TargetMissing',
          object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name },
          target: { group: 'infra.example.com', resource: 'datacenters', name: 'fra7' },
        })),
      },
      conditions: [{ ...condition, type: 'IntegrityVerified', status: 'False', reason: 'ViolationsFound' }],
    },
  },
];

const referencing = (
  name: string,
  targets: readonly string[],
  byReference?: Readonly<Record<string, number>>,
): AdmissionPolicy => ({
  metadata: { name, generation: 1 },
  spec: {
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: [name] },
    validate: {
      references: targets.map((target) => ({
        name: target,
        path: `spec.${target}`,
        target: { apiGroup: 'infra.example.com', resource: target },
        ...(target === 'racks'
          ? { onTargetDelete: 'Restrict' as const, guarantee: 'Serializable' as const }
          : {}),
      })),
    },
  },
  status: byReference === undefined ? {} : { violations: { total: 12, byReference } },
});

/** Servers name racks and datacenters, racks name datacenters, and volumes name themselves. */
export const POLICIES: readonly AdmissionPolicy[] = [
  referencing('servers', ['racks', 'datacenters'], { racks: 0, datacenters: 12 }),
  referencing('racks', ['datacenters'], { datacenters: 0 }),
  referencing('volumes', ['volumes']),
];

/**
 * A token is a user name: `alice` may view the page, `invalid` is no token, `broken` fails the token review,
 * the review of `stalled` never ends, and others lack permission.
 */
export async function runStatusPage() {
  let report = SCENE;
  let now = 0;
  const allowed = new Set(['alice']);
  const checkAccess = createAccessCheck(
    (token) => {
      if (token === 'stalled') return new Promise(() => undefined);
      if (token === 'broken') return Promise.reject(new Error('connection refused'));
      return Promise.resolve(token === 'invalid' ? undefined : { username: token });
    },
    ({ username }) => Promise.resolve(allowed.has(username)),
    () => undefined,
    () => performance.now() + now,
  );
  const app = buildOperationsServer({}, {}, createMetrics(), {
    checkAccess,
    view: () =>
      Promise.resolve({
        subtitle: `${report.namespace} · ${report.server}`,
        content: statusContent(report, WINDOWS, POLICIES),
        checkedAt: report.checkedAt,
      }),
    now: () => performance.now() + now,
    log: { info: () => undefined, warn: () => undefined },
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  return {
    app,
    url: `${url}/status`,
    change: (change: Partial<StatusReport>) => void (report = { ...report, ...change }),
    forbid: (user: string) => allowed.delete(user),
    pass: (ms: number) => void (now += ms),
  };
}
