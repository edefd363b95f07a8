/** The controller `teams` of the tests of controllers, and its runs in memory. */
import type { Frozen, UntypedObject } from '../../src/admission/handlers/handler.ts';
import {
  defineController,
  type AppliedObject,
  type ControllerContext,
  type ControllerDefinition,
} from '../../src/controllers/controller.ts';
import { runController, type ControllerVerdict } from '../../src/controllers/run-controller.ts';

export const now = new Date('2026-01-02T03:04:05Z');

export const team = (metadata: object = {}) => ({
  apiVersion: 'example.com/v1',
  kind: 'Team',
  metadata: { name: 'blue', uid: 'u1', ...metadata },
});
export const configMap = (name: string, parts: object = {}, metadata: object = {}) =>
  ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'teams', ...metadata },
    ...parts,
  }) satisfies AppliedObject;

export const define = <T extends object = UntypedObject>(
  reconcile: (context: ControllerContext, object: Frozen<T>) => unknown,
  parts: Partial<ControllerDefinition<T>> = {},
) =>
  defineController<T>({
    name: 'teams',
    watch: { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] },
    owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps', 'endpoints'] }],
    reconcile: async (object, context) => {
      await reconcile(context, object);
    },
    ...parts,
  });

export const run = (
  controller: Parameters<typeof runController>[0],
  object: object = team(),
  cluster: Readonly<Record<string, readonly object[]>> = {},
) => runController(controller, { object, cluster, now });

/** On the result of an earlier run. */
export function again(
  controller: Parameters<typeof runController>[0],
  { object, cluster }: Pick<ControllerVerdict, 'object' | 'cluster'>,
  change: object = {},
) {
  if (object === undefined) throw new Error('the object is gone');
  return run(controller, { ...object, ...change }, cluster);
}

export const verbs = ({ writes }: ControllerVerdict) => writes.map(({ verb, target }) => `${verb} ${target}`);
export const readyOf = ({ conditions }: ControllerVerdict) => conditions.find(({ type }) => type === 'Ready');
