/** A constant rate of changes through the API server. The number of objects stays constant. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { localService, type Cluster } from '../support/cluster.ts';
import { gadget, kindOf } from './scene.ts';

export interface ChangerOptions {
  readonly kinds: number;
  readonly namespace: string;
}

/** One in this number of objects is a Service that requests a serving certificate. */
const SERVICE_EVERY = 10;

type Change = (cluster: Cluster, n: number, options: ChangerOptions) => Promise<unknown>;

/** Three consecutive changes create, change and delete an object, so the number of objects is bounded. */
export function createChanger(cluster: Cluster, options: ChangerOptions): (n: number) => Promise<void> {
  /** The last change of each object. The next change waits for it. */
  const under = new Map<number, Promise<unknown>>();
  return async (n) => {
    const [life, stage] = [Math.floor(n / 3), n % 3];
    const steps = life % SERVICE_EVERY === 0 ? SERVICE_STEPS : GADGET_STEPS;
    const step = steps[stage];
    const before = under.get(life) ?? Promise.resolve();
    const mine = before.then(() => step?.(cluster, life, options));
    under.set(life, mine);
    try {
      await mine;
    } finally {
      if (stage === 2) under.delete(life);
    }
  };
}

const serialised = (life: number, { kinds, namespace }: ChangerOptions, size: number) =>
  gadget(life % kinds, namespace, `life-${life}`, { partner: 'fixed-0', serial: `life-${life}`, size });

const GADGET_STEPS: readonly Change[] = [
  ({ admin }, life, options) => admin.create(kindOf(life % options.kinds), serialised(life, options, 1)),
  ({ admin }, life, options) =>
    admin.patchMerge(
      kindOf(life % options.kinds),
      { namespace: options.namespace, name: `life-${life}` },
      { spec: { size: 2 } },
    ),
  ({ admin }, life, options) =>
    admin.delete(kindOf(life % options.kinds), { namespace: options.namespace, name: `life-${life}` }),
];

const named = (life: number) => `web-${life}`;

const SERVICE_STEPS: readonly Change[] = [
  ({ admin }, life, { namespace }) =>
    admin.create<KubeObject>(
      services,
      localService(namespace, named(life), 443, { 'gatehouse.dev/serving-cert-secret-name': named(life) }),
    ),
  async ({ see }, life, { namespace }) => {
    await see('its Secret', secrets, { namespace, name: named(life) }, undefined, 30_000);
  },
  async ({ admin }, life, { namespace }) => {
    await admin.delete(services, { namespace, name: named(life) });
    // Replaces the garbage collector, which does not run in this test.
    await admin.delete(secrets, { namespace, name: named(life) });
  },
];
