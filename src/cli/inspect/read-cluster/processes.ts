/** The Deployments that run the processes of Gatehouse, and the accounts of these processes. */
import type { KubeObject } from '../../../json/kube-object.ts';
import { deployments } from '../../../kube/well-known.ts';
import { valueOf, type Reading } from './reading.ts';
import type { createReader } from './reading.ts';

export interface Deployment extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly template: {
      readonly spec: {
        readonly serviceAccountName?: string;
        readonly containers: readonly {
          readonly args?: readonly string[];
          readonly env?: readonly { readonly name: string }[];
        }[];
      };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
  };
}

const WEBHOOK = 'gatehouse-webhook';
const CONTROLLERS = 'gatehouse-controllers';
/** The Deployment of `gatehouse serve`, which runs both processes, and its account. */
export const SINGLE = 'gatehouse';

/** Each process as the accounts of deploy/base whose permissions it needs, by the name of its Deployment. */
const NEEDS = {
  [WEBHOOK]: [WEBHOOK],
  [CONTROLLERS]: [CONTROLLERS],
  [SINGLE]: [WEBHOOK, CONTROLLERS],
} as const;

export type DeploymentName = keyof typeof NEEDS;

const NAMES: readonly DeploymentName[] = [WEBHOOK, CONTROLLERS, SINGLE];

/** The Deployments that exist. None if Gatehouse runs elsewhere, for example on a laptop. */
export type Deployments = ReadonlyMap<DeploymentName, Deployment>;

export async function readDeployments(
  get: ReturnType<typeof createReader>['get'],
  namespace: string,
): Promise<Reading<Deployments>> {
  const found = await Promise.all(NAMES.map((name) => get<Deployment>(deployments, { namespace, name })));
  const unread = found.find((reading) => reading.kind === 'unread');
  if (unread?.kind === 'unread') return unread;
  const value = new Map(
    NAMES.flatMap((name, index) => {
      const deployment = found[index] === undefined ? undefined : valueOf(found[index]);
      return deployment === undefined ? [] : [[name, deployment] as const];
    }),
  );
  return { kind: 'read', value };
}

/** A ServiceAccount, and the accounts of deploy/base whose permissions it needs. */
export interface ProcessAccount {
  readonly serviceAccount: string;
  readonly needs: readonly string[];
}

/** The account of the controllers, which restart workloads. */
export const controllersAmong = (accounts: readonly ProcessAccount[]): string =>
  accounts.find(({ needs }) => needs.includes(CONTROLLERS))?.serviceAccount ?? CONTROLLERS;

/** @param named the account that the user names, for a Gatehouse that runs elsewhere */
export function accountsOf(read: Reading<Deployments>, named: string | undefined): readonly ProcessAccount[] {
  if (named !== undefined) return [{ serviceAccount: named, needs: NEEDS[SINGLE] }];
  const found = valueOf(read);
  if (found === undefined)
    return [WEBHOOK, CONTROLLERS].map((name) => ({ serviceAccount: name, needs: [name] }));
  if (found.size === 0) return [{ serviceAccount: SINGLE, needs: NEEDS[SINGLE] }];
  return [...found].map(([name, { spec }]) => ({
    serviceAccount: spec?.template.spec.serviceAccountName ?? 'default',
    needs: NEEDS[name],
  }));
}
