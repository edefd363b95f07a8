/** A real control plane that takes one recorded case after another, each from an empty cluster. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { createTransport } from '../../conformance/transport.ts';
import { readVersion } from '../control-plane-http.ts';
import { caOf, launchPlane, stopPlane } from '../control-plane-site.ts';
import { restoreEtcdSnapshot, takeIdleSnapshot } from '../etcd-reset.ts';
import { refuseToRecord } from '../go-programs.ts';
import { eventually } from '../processes.ts';
import { senderTo, type Send } from '../recorded-requests.ts';

export type Admission = 'validating' | 'mutating';

export type Annotations = Readonly<Record<string, string>>;

export type RecordingPlane = Awaited<ReturnType<typeof startRecordingPlane>>;

/** Without the plugin and the controllers that add objects or fields. */
const FLAGS = {
  apiServerFlags: ['--disable-admission-plugins=ServiceAccount'],
  onlyControllers: ['validatingadmissionpolicy-status-controller'],
};

export async function startRecordingPlane(programs: string) {
  const plane = await launchPlane(programs, FLAGS);
  const { apiServer, etcd } = plane.servers;
  const transport = createTransport(apiServer.server, caOf(plane.site));
  const { gitVersion } = await readVersion(apiServer.server, caOf(plane.site), plane.site.tokens.admin);
  refuseToRecord(gitVersion);
  const send = senderTo(transport, plane.site.tokens.admin);
  const snapshot = await takeIdleSnapshot(etcd.url, 2_000);
  const groups = await groupsOf(send);
  const markers = markersOf(send);
  return {
    send,
    /** Removes what a case has left. @param restarted the API server never resumes a stopped cache of built-in params */
    reset: async (restarted: boolean) => {
      await eventually('a reset', async () => {
        const changed = await restoreEtcdSnapshot(etcd.url, snapshot);
        return changed.length === 0 && (await groupsOf(send)) === groups;
      });
      if (restarted) {
        await apiServer.stop();
        apiServer.launch();
        await apiServer.whenReady();
      }
      await markers.seeGone();
    },
    /** Resolves when everything that was installed or removed before the call is in force. */
    seeEnforced: markers.seeEnforced,
    auditOf: auditReader(join(plane.site.folder, 'audit.log')),
    revive: async () => {
      await sleep(500); // a program that panics needs a moment to end
      if (apiServer.isRunning()) return false;
      apiServer.launch();
      await apiServer.whenReady();
      return true;
    },
    stop: async () => {
      transport.close();
      await stopPlane(plane);
    },
  };
}

async function groupsOf(send: Send): Promise<string> {
  const { groups } = JSON.parse((await send({ method: 'GET', path: '/apis' })).text) as {
    readonly groups: readonly { readonly name: string }[];
  };
  return groups
    .map(({ name }) => name)
    .sort()
    .join();
}

const GROUP = '/apis/admissionregistration.k8s.io/v1';
const PROBE = { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', handler: 'none' };

/**
 * The API server takes policies over in order: when it enforces the last one, it enforces all. The markers
 * judge other objects, and are the last ones of their kinds in etcd, where a reset removes them last.
 */
function markersOf(send: Send) {
  let count = 0;
  let installed: { readonly name: string; readonly kind: Admission }[] = [];
  const isInForce = async ({ name, kind }: (typeof installed)[number]): Promise<boolean> => {
    const { text, headers } = await send({
      method: 'POST',
      path: '/apis/node.k8s.io/v1/runtimeclasses?dryRun=All',
      body: { ...PROBE, metadata: { name: 'probe', labels: { probe: kind } } },
    });
    return kind === 'mutating'
      ? text.includes(`'${name}'`)
      : (headers.warning ?? []).some((line) => line.includes(`'${name}'`));
  };
  return {
    seeEnforced: async (kinds: readonly Admission[]) => {
      const added = kinds.map((kind) => ({ name: `zz-marker-${(count += 1)}`, kind }));
      installed = [...installed, ...added];
      for (const { name, kind } of added)
        for (const [path, body] of markerOf(name, kind)) {
          const { status, text } = await send({ method: 'POST', path: `${GROUP}/${path}`, body });
          if (status >= 300) throw new Error(text);
        }
      for (const marker of added) await eventually(marker.name, () => isInForce(marker));
    },
    seeGone: async () => {
      for (const marker of installed)
        await eventually(`${marker.name} is gone`, async () => !(await isInForce(marker)));
      installed = [];
    },
  };
}

/** One kind of marker warns, and the other one fails: each is visible next to any policies of a case. */
function markerOf(name: string, kind: Admission): readonly (readonly [string, object])[] {
  const matchConstraints = {
    objectSelector: { matchLabels: { probe: kind } },
    resourceRules: [
      {
        apiGroups: ['node.k8s.io'],
        apiVersions: ['v1'],
        operations: ['CREATE'],
        resources: ['runtimeclasses'],
      },
    ],
  };
  const pairOf = (spec: object, binding: object) =>
    [
      [`${kind}admissionpolicies`, { metadata: { name }, spec }],
      [`${kind}admissionpolicybindings`, { metadata: { name }, spec: binding }],
    ] as const;
  if (kind === 'validating')
    return pairOf(
      { matchConstraints, validations: [{ expression: 'false' }] },
      { policyName: name, validationActions: ['Warn'] },
    );
  const expression = `[JSONPatch{op: 'add', path: '/handler', value: object.metadata.annotations['none']}]`;
  return pairOf(
    {
      matchConstraints,
      reinvocationPolicy: 'Never',
      failurePolicy: 'Fail',
      mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression } }],
    },
    { policyName: name },
  );
}

/** The API server adds an event after it has answered. */
function auditReader(path: string) {
  let from = 0;
  return async (id: string): Promise<Annotations> => {
    const event = await eventually(
      `the audit event ${id}`,
      () => {
        const line = textFrom(path, from)
          .split('\n')
          .slice(0, -1)
          .findLast((one) => one.includes(id));
        return line === undefined ? undefined : (JSON.parse(line) as { readonly annotations?: Annotations });
      },
      { timeoutMs: 10_000, everyMs: 20 },
    );
    from = statSync(path).size;
    return event.annotations ?? {};
  };
}

/** `from` may be in the middle of a line, but no later request is there. */
function textFrom(path: string, from: number): string {
  const rest = Buffer.alloc(Math.max(0, statSync(path).size - from));
  const file = openSync(path, 'r');
  try {
    return rest.toString('utf8', 0, readSync(file, rest, 0, rest.length, from));
  } finally {
    closeSync(file);
  }
}
