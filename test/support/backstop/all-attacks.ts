/** What a thief with the token of the controllers may try. */
import type { Attack, Attempt } from './attack.ts';
import { ON_CONFIG_MAPS } from './on-config-maps.ts';
import { ON_DEFINITIONS } from './on-definitions.ts';
import { ON_INSTALLATION } from './on-installation.ts';
import { ON_SECRETS } from './on-secrets.ts';
import { ON_WEBHOOKS } from './on-webhooks.ts';
import { ON_WORKLOADS } from './on-workloads.ts';

const of = (policy: Attack['policy'], attacks: readonly Attempt[]): readonly Attack[] =>
  attacks.map((attack) => ({ ...attack, policy }));

export const ATTACKS: readonly Attack[] = [
  ...of('secrets', ON_SECRETS),
  ...of('config-maps', ON_CONFIG_MAPS),
  ...of('webhooks', ON_WEBHOOKS),
  ...of('definitions', ON_DEFINITIONS),
  ...of('workloads', ON_WORKLOADS),
  ...of('installation', ON_INSTALLATION),
];
