/** Whether anybody has asked this process yet. */
import type { WebhookDeps } from '../server/webhook-server.ts';

type Admission = Pick<WebhookDeps, 'mutate' | 'validate'>;

export interface Visited extends Admission {
  /** Whether any review has come here. */
  readonly wasAsked: () => boolean;
}

export function visited({ mutate, validate }: Admission): Visited {
  let asked = false;
  return {
    mutate: (...question) => {
      asked = true;
      return mutate(...question);
    },
    validate: (...question) => {
      asked = true;
      return validate(...question);
    },
    wasAsked: () => asked,
  };
}
