// The globals of a browser that the console's modules read while they load. Loaded before each test file (`node --import`).

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
Object.assign(globalThis, {
  location: new URL("http://127.0.0.1:4566/console/#/"),
  sessionStorage: storage(),
  localStorage: storage(),
  document: { hidden: false, querySelector: () => null },
  addEventListener: page.addEventListener.bind(page),
  removeEventListener: page.removeEventListener.bind(page),
  dispatchEvent: page.dispatchEvent.bind(page),
});
