// Browser globals that the console's modules read on import. Loaded before each test file (`node --import`).

const storage = () => {
  const items = new Map();
  return {
    getItem: (name) => items.get(name) ?? null,
    setItem: (name, value) => void items.set(name, String(value)),
    removeItem: (name) => void items.delete(name),
    clear: () => items.clear(),
  };
};
const page = new EventTarget();
/** Go to an address of this page. */
function go(address) {
  location.hash = new URL(address, location.href).hash;
}

Object.assign(globalThis, {
  location: Object.assign(new URL("http://127.0.0.1:4566/console/#/"), { assign: go, replace: go }),
  sessionStorage: storage(),
  localStorage: storage(),
  document: { hidden: false, querySelector: () => null },
  addEventListener: page.addEventListener.bind(page),
  removeEventListener: page.removeEventListener.bind(page),
  dispatchEvent: page.dispatchEvent.bind(page),
});
