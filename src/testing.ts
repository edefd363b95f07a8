/** For the tests of controllers: `@gatehouse-dev/gatehouse/testing`. */
export {
  startControllerSuite,
  type ControllerSuite,
  type SettleOptions,
  type SuiteKind,
} from './cli/sandbox/controller-suite.ts';
