// suite: shared-plane, sandbox: no (Helm applies on the server side), slow
/** Manifests with a placeholder for the bundle, applied again and again by the tools that people use. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { withKind } from '../../src/kube/object.ts';
import type { Cluster } from '../support/cluster.ts';
import { runTool } from '../support/go-programs.ts';
import {
  KINDS,
  managedBy,
  seeBundle,
  SHOP,
  startInjecting,
  type Carrier,
  type Kind,
} from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';

let cluster: Cluster;
let bundle: string;
let kubectl: Kubectl;

beforeAll(async () => {
  ({ cluster, bundle } = await startInjecting());
  kubectl = createKubectl(cluster.plane);
});

afterAll(async () => {
  kubectl.stop();
  await cluster.stop();
});

const manifest = (kind: Kind, name: string, placeholder: string): Carrier =>
  withKind(kind.resource, kind.withBundle(kind.make(name), placeholder));

/** Waits for the bundle, and until no field is left with Gatehouse. */
async function seeSettled(kind: Kind, name: string): Promise<void> {
  await seeBundle(cluster, kind, name, bundle);
  await cluster.see<Carrier>('no owner', kind.resource, kind.ref(name), (object) => {
    return managedBy(object, 'gatehouse-cabundle').length === 0 && kind.bundles(object).includes(bundle);
  });
}

/** Newer API servers reject the conversion of a CustomResourceDefinition with a placeholder that is no PEM. */
const CASES = Object.entries(KINDS).flatMap(([what, kind]) =>
  (what === 'crd' ? [''] : ['', '\n']).map(
    (text) => [what, text === '' ? 'empty' : 'Cg==', kind, text] as const,
  ),
);

describe.skipIf(!HAS_KUBECTL).each(CASES)('%s with a placeholder that is %s:', (what, which, kind, text) => {
  const name = `${what}${which === 'empty' ? '0' : '1'}`;

  test.each([
    ['kubectl apply --server-side', 'apply --server-side -f -'],
    ['Argo CD without force', 'apply --server-side --field-manager argocd-controller -f -'],
    ['Argo CD', 'apply --server-side --field-manager argocd-controller --force-conflicts -f -'],
    ['kubectl apply', 'apply -f -'],
  ])('%s succeeds twice, and the bundle returns', async (_tool, command) => {
    const stdin = manifest(kind, name, text);
    await kubectl.says(command, { stdin });
    await seeSettled(kind, name);
    await kubectl.says(command, { stdin });
    await seeSettled(kind, name);
  });
});

test('helm upgrade of a chart with placeholders succeeds, and the bundles return', async () => {
  const chart = mkdtempSync(join(tmpdir(), 'gatehouse-chart-'));
  try {
    mkdirSync(join(chart, 'templates'));
    writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: hooks\nversion: 1.0.0\n');
    for (const [what, kind] of Object.entries(KINDS)) {
      const object = manifest(kind, `${what}h`, what === 'crd' ? '' : '\n');
      const labels = { upgrade: '{{ .Release.Revision }}' };
      const text = JSON.stringify({ ...object, metadata: { ...object.metadata, labels } });
      writeFileSync(join(chart, 'templates', `${what}.yaml`), text);
    }
    const connection = ['--kubeconfig', cluster.plane.kubeconfig('admin'), '--namespace', SHOP];
    const helm = (...words: readonly string[]) => runTool('helm', [...words, ...connection]);
    const settled = async () => {
      for (const [what, kind] of Object.entries(KINDS)) await seeSettled(kind, `${what}h`);
    };
    await helm('install', 'hooks', chart);
    await settled();
    for (const change of [
      ['upgrade', 'hooks', chart],
      ['upgrade', 'hooks', chart],
      ['rollback', 'hooks', '1'],
    ]) {
      await helm(...change);
      await settled();
    }
    expect(await helm('list')).toContain('deployed');
  } finally {
    rmSync(chart, { recursive: true });
  }
});
