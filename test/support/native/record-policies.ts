/** Records what a real API server answers to the cases in test/data about admission policies. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { controlPlanePrograms, refuseToRecord } from '../go-programs.ts';
import { eventually } from '../processes.ts';
import { ADMIN, senderTo, setUp } from '../recorded-requests.ts';
import type { Manifest, RecordedRequest, Send, Setup } from '../recorded-requests.ts';
import {
  answerOf,
  likeIn,
  namesIn,
  POLICIES,
  recordedIn,
  recordedPolicies,
  settled,
  type Answer,
  type Recorded,
} from './recorded-policies.ts';
import { createTransport } from '../transport.ts';
import { caOf, launchPlane, readVersion, stopPlane } from '../control-plane-site.ts';
import { readAuditLog } from '../control-plane.ts';
import { readGroups } from '../control-plane-pool.ts';
import { restoreEtcdSnapshot, takeIdleSnapshot } from '../etcd.ts';

/** More would compete for the processors of a small machine. */
const PLANES = 2;

/** The API server takes policies over once a second. A case that differs from its recording gets more time each try. */
const PATIENCE_MS: readonly number[] = [2_500, 5_000, 15_000];

/** kube-controller-manager looks for new kinds every 30 s, and checks a policy only once. */
const NEW_KINDS_MS = 40_000;

/** Replays cases, and replaces what differs. @param only beginnings of the names to replay; none: all */
export async function recordPolicies(only: readonly string[] = []): Promise<void> {
  const programs = await controlPlanePrograms();
  const cases = recordedPolicies();
  const results = [...cases];
  const failures: string[] = [];
  const queue = [...cases.entries()].filter(
    ([, { name }]) => only.length === 0 || only.some((start) => name.startsWith(start)),
  );
  const work = async (): Promise<void> => {
    const plane = await startRecordingPlane(programs);
    try {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const [index, old] = next;
        try {
          results[index] = await recordOne(plane, old);
          if (results[index] !== old) console.log(`${old.name}: other answers`);
        } catch (error) {
          failures.push(`${old.name}: ${String(error)}`);
        }
        if (queue.length % 50 === 0) {
          save(results);
          console.log(`${queue.length} of ${cases.length} cases are left`);
        }
      }
    } finally {
      await plane.stop();
    }
  };
  await Promise.all(Array.from({ length: PLANES }, work));
  save(results);
  if (failures.length > 0) throw new Error(`not recorded:\n${failures.join('\n')}`);
}

const save = (all: readonly Recorded[]): void => {
  const path = join(import.meta.dirname, '..', '..', 'data', POLICIES);
  writeFileSync(path, all.map((one) => `${JSON.stringify(one)}\n`).join(''));
};

/** @returns the same object if the API server still answers like this */
async function recordOne(plane: RecordingPlane, old: Recorded): Promise<Recorded> {
  const expected = recordedIn(old);
  let found = old;
  for (const patienceMs of PATIENCE_MS) {
    found = await ask(plane, old, patienceMs);
    if (isDeepStrictEqual(recordedIn(found), expected)) return old;
  }
  return found;
}

async function ask(plane: RecordingPlane, old: Recorded, patienceMs: number): Promise<Recorded> {
  await plane.reset(hasBuiltInParams(old.setup));
  const send: Send = (request, user) => plane.send(request, user ?? ADMIN);
  const { setup, change = [], request, user } = old;
  await install(send, setup);
  if (change.length > 0) await sleep(patienceMs);
  for (const one of change) await send(one);
  const isAboutNewKind = old.status !== undefined && definitionsIn(setup).length > 0;
  await sleep(isAboutNewKind ? NEW_KINDS_MS + patienceMs : patienceMs);
  const { answer, audit } = await judged(plane, () => send(request, user ?? undefined));
  const response = likeIn(old.response, answer);
  const followUp: { request: RecordedRequest; response: Answer }[] = [];
  for (const one of old.followUp ?? []) {
    const read = likeIn(one.response, answerOf(await send(one.request)));
    const told = one.response.items === undefined ? read : namesIn(read);
    followUp.push({ request: one.request, response: kept(told) });
  }
  return {
    ...old,
    response: kept(response),
    audit,
    ...(old.status === undefined ? {} : { status: await settled(send, old.status) }),
    ...(old.followUp === undefined ? {} : { followUp }),
  };
}

/** No answer and no event when the request ends the API server. */
async function judged(
  plane: RecordingPlane,
  request: () => ReturnType<Send>,
): Promise<Pick<Recorded, 'audit'> & { readonly answer: Answer }> {
  const from = plane.auditSize();
  const raw = await request().catch(async (error: unknown) => {
    if (await plane.revive()) return undefined;
    throw error;
  });
  const message = 'the server closed the connection without a response';
  if (raw === undefined) return { answer: { code: 0, message, warnings: [] }, audit: null };
  const annotations = Object.entries(await plane.auditOf(raw.headers['audit-id']?.[0] ?? '', from));
  return {
    answer: answerOf(raw),
    audit: Object.fromEntries(annotations.filter(([key]) => !OF_REQUEST.test(key))),
  };
}

/** How the API server authorized the request, and how long a slow one took. */
const OF_REQUEST = /^(authorization|apiserver\.latency)\.k8s\.io\//;

const hasBuiltInParams = (setup: Setup): boolean =>
  /"paramKind":\{"apiVersion":"(v1|[a-z]+\/|[a-z.]+\.k8s\.io\/)/.test(JSON.stringify(setup));

async function install(send: Send, setup: Setup): Promise<void> {
  const definitions = definitionsIn(setup);
  await setUp(send, definitions);
  for (const { spec } of definitions)
    for (const { name } of spec.versions.filter(({ served }) => served)) {
      const path = `/apis/${spec.group}/${name}/${spec.names.plural}`;
      await eventually(path, async () => (await send({ method: 'GET', path })).status === 200);
    }
  await setUp(
    send,
    setup.filter((one) => !isDefinition(one)),
  );
}

type Definition = Manifest & {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly plural: string };
    readonly versions: readonly { readonly name: string; readonly served: boolean }[];
  };
};

const isDefinition = (one: Setup[number]): one is Definition =>
  'kind' in one && one.kind === 'CustomResourceDefinition';

const definitionsIn = (setup: Setup): readonly Definition[] => setup.filter(isDefinition);

function kept(answer: Answer): Answer {
  return JSON.parse(JSON.stringify(answer), (key, value: unknown) =>
    OF_THE_RUN.has(key) && typeof value === 'string' ? TIMES.get(key) : value,
  ) as Answer;
}

const TIMES: ReadonlyMap<string, string> = new Map(
  ['deletionTimestamp', 'lastTransitionTime'].map((key) => [key, '<time>']),
);
const OF_THE_RUN = new Set(['uid', 'resourceVersion', 'creationTimestamp', 'time', ...TIMES.keys()]);

type RecordingPlane = Awaited<ReturnType<typeof startRecordingPlane>>;

/** Without the plugin and the controllers that add objects or fields. */
const FLAGS = {
  apiServerFlags: ['--disable-admission-plugins=ServiceAccount'],
  onlyControllers: ['validatingadmissionpolicy-status-controller'],
};

async function startRecordingPlane(programs: string) {
  const plane = await launchPlane(programs, FLAGS);
  const { apiServer, etcd } = plane.servers;
  const transport = createTransport(apiServer.server, caOf(plane.site));
  const { gitVersion } = await readVersion(apiServer.server, caOf(plane.site), plane.site.tokens.admin);
  refuseToRecord(gitVersion);
  const send = senderTo(transport, plane.site.tokens.admin);
  const snapshot = await takeIdleSnapshot(etcd.url, 2_000);
  const groups = await readGroups(plane);
  const log = join(plane.site.folder, 'audit.log');
  return {
    send,
    /** Removes what a case has left. @param restarted the API server never resumes a stopped cache of built-in params */
    reset: async (restarted: boolean) => {
      await eventually('a reset', async () => {
        const changed = await restoreEtcdSnapshot(etcd.url, snapshot);
        return changed.length === 0 && (await readGroups(plane)) === groups;
      });
      if (restarted) {
        await apiServer.stop();
        apiServer.launch();
        await apiServer.whenReady();
      }
    },
    auditSize: () => statSync(log).size,
    /** The annotations of a request. The API server adds the event after it has answered. */
    auditOf: async (id: string, from: number) => {
      const find = () => readAuditLog(log, from).find(({ auditID }) => auditID === id);
      const patience = { timeoutMs: 10_000, everyMs: 20 };
      return (await eventually(`the audit event ${id}`, find, patience)).annotations ?? {};
    },
    revive: async () => {
      await sleep(500); // a program that panics needs a moment to end
      if (apiServer.isRunning()) return false;
      apiServer.launch();
      await apiServer.whenReady();
      return true;
    },
    stop: async () => {
      await transport.stop();
      await stopPlane(plane);
    },
  };
}
