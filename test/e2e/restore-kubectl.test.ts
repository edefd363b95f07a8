// suite: shared-plane, sandbox: no (it lacks the Job controller), slow
/** The scenes of the Velero suite, restored by a Job that runs `kubectl apply` over the files of a backup. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { groupResourceName, type KubeObject } from '../../src/json/kube-object.ts';
import { pods } from '../../src/kube/well-known.ts';
import { createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { resourceOf } from '../support/definitions.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { condition } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { brokenIn, linesOf } from '../support/restore-oracle.ts';
import { application, APPLICATIONS, type Application, ZONES } from '../support/restore-kinds.ts';
import { enableDetector, installKinds, untilDetectorIsProcessed } from '../support/restore-scene.ts';
import {
  createScene,
  loseScene,
  lostOf,
  namespacesOf,
  readScene,
  SCENES,
  type Scene,
  type Snapshot,
} from '../support/real-velero/scenes.ts';
import { connect, type RestoreSpec } from '../support/real-velero/server.ts';
import { enforcePolicies } from '../support/real-velero/stage.ts';

const JOBS = resourceOf('batch', 'jobs', 'Job');
const NAMESPACE = 'restores';
const ACCOUNT = { namespace: NAMESPACE, name: 'restorer' };
const SKIP = 'example.com/skip';
const RECORD = 'gatehouse.dev/quiesced';
const APPLY_STATUS = 'apply --server-side --force-conflicts --subresource=status';

const scenes = SCENES.map(([, scene]) => scene);
/** The namespaces into which the scenes are restored, the first or the second time. */
const placesOf = (index: number): ReadonlySet<string> =>
  new Set(
    scenes.flatMap((scene) => {
      const { namespaceMapping = {} } = scene.restores[index] ?? {};
      const names = namespacesOf(scene).map((name) => namespaceMapping[name] ?? name);
      return scene.restores[index] === undefined ? [] : names;
    }),
  );
const backups = new Map<Scene, Snapshot>();

let cluster: Cluster;
let kubectl: Kubectl;

describe.skipIf(!HAS_KUBECTL)('a restore with kubectl apply', () => {
  beforeAll(async () => {
    ({ cluster } = await startGatehouse({ arrangement: 'both', prepare: installKinds }));
    await enforcePolicies(cluster);
    await createNamespace(cluster, NAMESPACE);
    const account: KubeObject = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: ACCOUNT };
    await cluster.apply(account, clusterAdmin('restorer', `system:serviceaccount:${NAMESPACE}:restorer`));
    const kubeconfig = join(cluster.plane.folder, 'restorer.kubeconfig');
    await connect(cluster, ACCOUNT, kubeconfig);
    kubectl = createKubectl({ ...cluster.plane, kubeconfig: () => kubeconfig });
    for (const scene of scenes) {
      await createScene(cluster, scene);
      backups.set(scene, await readScene(cluster, scene));
    }
    await loseAll();
  });

  afterAll(async () => {
    kubectl.stop();
    await cluster.stop();
  });

  test('with the policies alone: objects of each scene are lost', async () => {
    await applyFiles('apply', filesOf('alone', 0));
    for (const scene of scenes) expect([scene.name, await lost(scene)]).not.toEqual([scene.name, []]);
    await enableDetector(cluster, 'job', {
      namespaces: [NAMESPACE],
      window: { settle: '1s', idle: '1s' },
      quiesce: [
        {
          apiGroup: APPLICATIONS.group,
          resource: APPLICATIONS.resource,
          matchLabels: { pause: 'yes' },
          path: `metadata.annotations["${SKIP}"]`,
          value: 'true',
        },
      ],
    });
    await untilDetectorIsProcessed(cluster, 'job');
  });

  describe.each([
    ['client', 'apply'],
    ['server', 'apply --server-side --force-conflicts'],
  ])('applied by the %s', (side, command) => {
    beforeAll(loseAll);

    test('nothing is lost in two passes, and the report is right', async () => {
      for (const index of [0, 1]) {
        const name = `${side}-${index}`;
        const files = filesOf(name, index);
        const end = await beginJob(name);
        const said = [await applyFiles(command, files), await applyFiles(command, files)];
        if (index === 0) await kubectl.says(`${APPLY_STATUS} -f ${join(files, 'Application.state.a.json')}`);
        await end('Succeeded');
        const { status } = await seeReport(name);
        const denied = said.map((text) => text.split('denied the request').length - 1);
        expect(denied, said.join('\n')).toEqual(Array(2).fill(refusedBy(index)));
        if (index === 0) expect(said[0]).toContain('does not exist yet; checked again after the restore');
        const places = placesOf(index);
        const reported = linesOf(status?.violations?.items ?? [], places);
        expect(reported).toEqual(await brokenIn(cluster.admin, places));
      }
      for (const scene of scenes) expect([scene.name, await lost(scene)]).toEqual([scene.name, []]);
    });

    test('what it writes is paused until the Job has failed, and has its value again', async () => {
      const labels = { pause: 'yes' };
      const named = (name: string, value: string) =>
        application('probe', `${side}-${name}`, {}, { labels, annotations: { [SKIP]: value } });
      await cluster.admin.create(APPLICATIONS, named('old', 'no'));
      const files = folderOf(`${side}-paused`);
      for (const object of [named('old', 'maybe'), named('new', 'no')]) writeObject(files, object);
      const end = await beginJob(`${side}-paused`);
      await cluster.see('the leader pauses it', APPLICATIONS, refOf(named('old', '')), isPaused);
      for (const pass of ['first', 'second']) {
        await kubectl.says(`${command} -f ${files}`);
        for (const name of ['old', 'new']) {
          const stored = await cluster.admin.get(APPLICATIONS, refOf(named(name, '')));
          expect(stored?.metadata?.annotations, `${name}, ${pass} pass`).toMatchObject({ [SKIP]: 'true' });
        }
      }
      await end('Failed');
      await seeReport(`${side}-paused`);
      for (const [name, value] of [
        ['old', 'maybe'],
        ['new', 'no'],
      ] as const) {
        const ref = refOf(named(name, ''));
        const stored = await cluster.see(`${name} resumes`, APPLICATIONS, ref, (one) => !isPaused(one));
        expect(stored.metadata?.annotations).toMatchObject({ [SKIP]: value });
        expect(stored.metadata?.annotations).not.toHaveProperty(RECORD);
      }
    });
  });
});

const isPaused = ({ metadata }: KubeObject): boolean => metadata?.annotations?.[SKIP] === 'true';

const refOf = ({ metadata }: Application) => ({
  namespace: metadata?.namespace ?? '',
  name: metadata?.name ?? '',
});

const loseAll = () => Promise.all(scenes.map((scene) => loseScene(cluster, scene)));

const refusedBy = (index: number): number =>
  scenes.reduce(
    (sum, { restores, refused = [] }) => sum + (restores[index] === undefined ? 0 : refused.length),
    0,
  );

async function lost(scene: Scene): Promise<readonly string[]> {
  const { isRestored = () => true, restores } = scene;
  const before = backups.get(scene)?.filter(isRestored) ?? [];
  return lostOf(before, await readScene(cluster, scene), restores[0] ?? {});
}

/** A file for each selected object, as `kubectl get -o json` prints it, without the fields that belong to the old cluster. */
function filesOf(name: string, index: number): string {
  const folder = folderOf(name);
  for (const [scene, objects] of backups) {
    const spec = scene.restores[index];
    if (spec === undefined) continue;
    for (const object of objects.filter((one) => isSelected(one, spec)))
      writeObject(folder, movedTo(spec.namespaceMapping ?? {}, object));
  }
  for (const place of placesOf(index))
    writeObject(folder, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: place } });
  return folder;
}

function isSelected(
  { kind, metadata }: KubeObject,
  { labelSelector, includedResources }: RestoreSpec,
): boolean {
  const resource = groupResourceName(kind === ZONES.kind ? ZONES : APPLICATIONS);
  const wanted = Object.entries(labelSelector?.matchLabels ?? {});
  return (
    includedResources?.includes(resource) !== false &&
    wanted.every(([key, value]) => metadata?.labels?.[key] === value)
  );
}

const movedTo = (mapping: Readonly<Record<string, string>>, object: KubeObject): KubeObject => {
  const { namespace } = object.metadata ?? {};
  if (namespace === undefined) return object;
  return { ...object, metadata: { ...object.metadata, namespace: mapping[namespace] ?? namespace } };
};

function folderOf(name: string): string {
  const folder = join(cluster.plane.folder, `files-${name}`);
  mkdirSync(folder);
  return folder;
}

/** kubectl reads the files in the order of their names: namespaces, then applications, then the zones that they reference. */
function writeObject(folder: string, { metadata = {}, ...rest }: KubeObject): void {
  const { name = '', namespace, labels, annotations } = metadata;
  const order = rest.kind === 'Namespace' ? '0' : (rest.kind ?? '');
  const file = join(folder, [order, namespace, name, 'json'].join('.'));
  writeFileSync(file, JSON.stringify({ ...rest, metadata: { name, namespace, labels, annotations } }));
}

/** @returns what kubectl prints, also if the API server refuses objects */
const applyFiles = (command: string, folder: string): Promise<string> =>
  kubectl.says(`${command} -f ${folder}`).catch(String);

/** The Job controller of Kubernetes runs the Job. @returns a function that ends its pod, as a kubelet does */
async function beginJob(name: string) {
  const container = { name: 'kubectl', image: 'example.com/kubectl:1' };
  const pod = { restartPolicy: 'Never', serviceAccountName: ACCOUNT.name, containers: [container] };
  const job: KubeObject & { readonly spec: object } = {
    metadata: { namespace: NAMESPACE, name },
    spec: { backoffLimit: 0, template: { spec: pod } },
  };
  await cluster.admin.create(JOBS, job);
  return async (phase: 'Succeeded' | 'Failed') => {
    const found = await eventually('the pod of the Job', async () => {
      const query = { labelSelector: `batch.kubernetes.io/job-name=${name}` };
      return (await cluster.admin.listAll(pods, query)).items[0]?.metadata?.name;
    });
    await cluster.admin.patchStatus(pods, { namespace: NAMESPACE, name: found }, { status: { phase } });
  };
}

const seeReport = (job: string): Promise<RestoreWindow> =>
  eventually(
    `the report on ${job}`,
    async () => {
      const { items } = await cluster.admin.listAll<RestoreWindow>(RESTORE_WINDOWS);
      const window = items.find(({ spec }) => spec.source?.ref?.name === job);
      return window !== undefined &&
        condition(window, 'SweepComplete')?.status === 'True' &&
        isReported(window)
        ? window
        : undefined;
    },
    { timeoutMs: 60_000 },
  );

const isReported = ({ status }: RestoreWindow): boolean =>
  status?.phase === 'Completed' || status?.phase === 'CompletedWithViolations';
