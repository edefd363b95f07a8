/** The rows of the Grafana dashboard. Every query selects only the instances of the variable `job`. */
import { admission } from './dashboard/admission.ts';
import { certificates } from './dashboard/certificates.ts';
import { injection } from './dashboard/injection.ts';
import { machinery } from './dashboard/machinery.ts';
import type { Row } from './dashboard/panel.ts';
import { policies } from './dashboard/policies.ts';

export type { Panel, Row } from './dashboard/panel.ts';

export const ROWS: readonly Row[] = [admission, certificates, injection, policies, machinery];
