// All English texts of the console, in groups by screen.
//
// A translation is one further file with the same keys, which `index.js` selects. Values are texts, or functions of what a
// sentence contains. A function that returns a list has parts that the page draws, such as links.

import { count } from "../core/count.js";

/** @typedef {import("preact").ComponentChildren} Children */

const PLURAL = new Intl.PluralRules("en");

/** Return a count with its noun, such as `1 video` or `2 videos`.
 * @param {number} number @param {string} one @param {string} other */
const counted = (number, one, other) => `${count(number)} ${PLURAL.select(number) === "one" ? one : other}`;

/** @param {number} hours */
const inTheLast = (hours) => (hours === 1 ? "in the last hour" : `in the last ${counted(hours, "hour", "hours")}`);

export default {
  /** The language tag of these texts. */
  language: "en",
  // Texts of several screens.
  common: {
    goToLibrary: "Go to library",
    noConnection: "No connection",
    product: "Video metadata",
    discardQuestion: "Discard changes?",
    /** @param {number} videos */
    videoCount: (videos) => counted(videos, "video", "videos"),
    noVideos: "No videos",
    /** @param {string} result @param {string} time */
    asOf: (result, time) => `${result}, as of ${time}`,
    clearFilters: "Clear filters",
    userIdHint: "The user ID, which the page of a video shows as its owner",
    show: "Show",
    period: "Period",
    sortBy: "Sort by",
    videos: "Videos",
    newestFirst: "Newest first",
    oldestFirst: "Oldest first",
    separateTags: "Separate tags with commas",
    upload: "Upload",
    remove: "Remove",
    cancel: "Cancel",
    tryAgain: "Try again",
    uploadAnother: "Upload another file",
    /** @param {number} views */
    views: (views) => counted(views, "view", "views"),
    video: "Video",
    linkCopied: "Link copied.",
    share: "Share",
    edit: "Edit",
    delete: "Delete",
    close: "Close",
    saved: "Saved.",
    saving: "Saving …",
    save: "Save",
    add: "Add",
    changedByAnother: "Changed by another user",
    keepMine: "Keep my changes",
    takeTheirs: "Use their changes",
    keepEditing: "Keep editing",
    none: "none",
    yes: "yes",
    no: "no",
    noHistory: "No history is stored.",
    unsaved: "Your changes are not saved.",
    discard: "Discard changes",
    removed: "Removed.",
    noPlaylists: "You have no playlists yet.",
    sourceIsCause: "The source file is the cause. Upload a different file.",
    /** @param {string} job */
    retryOf: (job) => `Retry: ${job}`,
    retry: "Retry",
    refresh: "Refresh",
    empty: "empty",
    loadMore: "Load more",
    /** @param {Children} user */
    byUser: (user) => ["by ", user],
    create: "Create",
    user: "User",
    stop: "Stop",
    undo: "Undo",
    done: "Done",
  },
  // Labels of the fields of a video, by their names in the API.
  fields: {
    videoId: "ID",
    userId: "Owner",
    createdAt: "Created",
    updatedAt: "Updated",
    externalId: "External ID",
    slug: "Slug",
    title: "Title",
    description: "Description",
    duration: "Duration",
    fileSize: "File size",
    format: "Format",
    resolution: "Resolution",
    videoCodec: "Video codec",
    audioCodec: "Audio codec",
    frameRate: "Frame rate",
    origins: "Origins",
    resolutions: "Renditions",
    tags: "Tags",
    category: "Category",
    folder: "Folder",
    releaseYear: "Release year",
    language: "Language",
    seriesId: "Series",
    season: "Season",
    episode: "Episode",
    status: "Status",
    visibility: "Visibility",
    publishAt: "Published from",
    expiresAt: "Published until",
    purgeAt: "Permanently deleted",
    metadata: "Metadata",
    thumbnails: "Thumbnails",
    source: "Source file",
    failure: "Failure",
    viewCount: "Views",
    version: "Version",
    schemaVersion: "Schema version",
    pictures: "Thumbnails",
    posterTime: "Poster frame",
  },
  // States of videos and jobs, and visibilities, by their names in the API.
  states: {
    uploaded: "Uploaded",
    processing: "Processing",
    ready: "Ready",
    failed: "Failed",
    deleted: "Deleted",
    queued: "Queued",
    running: "Running",
    done: "Done",
    private: "Private",
    public: "Public",
  },
  // Labels of jobs by kind. The name of a rendition can follow.
  jobs: {
    probe: "Probe",
    poster: "Poster",
    storyboard: "Storyboard",
    captions: "Captions",
    transcode: "Rendition",
  },
  // Errors without a text of the service.
  errors: {
    serviceSilent: "The service does not respond. Check your connection and try again.",
    requestFailed: "Request failed",
    /** @param {number} status */
    serviceStatus: (status) => `The service responded with status ${status}.`,
  },
  // Errors at signing in.
  signIn: {
    /** @param {number} status */
    noConfiguration: (status) => `The console's configuration cannot be read (${status}).`,
    /** @param {string} reason */
    refused: (reason) => `Sign-in failed: ${reason}.`,
    /** @param {string} user @param {string} expected */
    otherUser: (user, expected) => `You signed in as ${user}, but the other window expects ${expected}. Sign in as ${expected} or close this window.`,
    noClient: "This deployment has no client for the console. Set consoleClient (docs/console.md).",
    unusableToken: "The access token is not a JWT with a subject. Configure the issuer to issue one.",
  },
  // The page around all screens, and the page of users who have not signed in.
  app: {
    skip: "Skip to content",
    failed: "Something went wrong",
    notFound: "Not found",
    pageMissing: "This page does not exist.",
    notLoaded: "Page not loaded",
    outdatedTitle: "Out of date",
    outdated: "A new version of the console is available. Reload the page.",
    offline: "The page could not be loaded. Check your connection and try again.",
    welcome: "Upload, process, play and find your videos.",
    signIn: "Sign in",
    sessionEnded: "Your session has ended",
    /** @param {Children} user */
    signInAgainAs: (user) => ["Sign in again as ", user, " to continue. Nothing on this page is lost."],
    signInAgain: "Sign in again",
    signOutAndDiscard: "Sign out and discard changes",
  },
  // The header: navigation, search, and the menu of the user.
  frame: {
    screens: "Screens",
    /** @param {number} percent */
    uploading: (percent) => `Uploading, ${percent}%`,
    resumeUpload: "Resume upload",
    /** @param {string} subject */
    account: (subject) => `Account: ${subject}`,
    /** @param {Children} user */
    signedInAsAdmin: (user) => ["Signed in as ", user, " (admin)"],
    /** @param {Children} user */
    signedInAs: (user) => ["Signed in as ", user],
    apiDocumentation: "API documentation",
    signOut: "Sign out",
    uploadQuestion: "Sign out during an upload?",
    unsaved: "Your changes are not saved. Signing out discards them.",
    unsavedUpload: "Signing out cancels the uploads and discards unsaved changes.",
    signOutAndCancel: "Sign out and cancel uploads",
    staySignedIn: "Stay signed in",
    searchVideos: "Search videos",
    suggestedTag: "Tag",
    suggestedVideo: "Video",
  },
  // Parts of all screens, such as fields and messages.
  parts: {
    loading: "Loading …",
    suggestions: "Suggestions",
    breadcrumbs: "Breadcrumbs",
    /** @param {string} message @param {string} time */
    retryAfter: (message, time) => `${message} Try again in ${time}.`,
    unknownError: "Reload the page and try again.",
    selectFile: "Select a file.",
    fillIn: "Fill in this field.",
    /** @param {string} min @param {string} max */
    outOfRange: (min, max) => `Enter a number from ${min} to ${max}.`,
    invalidUrl: "Enter a URL, for example https://example.com.",
    invalid: "Enter a valid value.",
    /** @param {number} changes */
    showChanges: (changes) => `Show ${counted(changes, "new change", "new changes")}`,
    /** @param {string} tag */
    removeTag: (tag) => `Remove the tag ${tag}`,
    tagHint: "Press Enter or type a comma to add a tag.",
  },
  library: {
    title: "Library",
    chooseFirst: "Enter a value above to list videos.",
    invalidFilters: "These filters are not valid. Correct the marked fields.",
    selected: "Selected videos",
    /** @param {number} videos */
    selectedCount: (videos) => `${counted(videos, "video", "videos")} selected`,
    editSelected: "Edit …",
    addSelected: "Add to playlist …",
    deleteSelected: "Delete …",
    clearSelection: "Clear selection",
    columnsMenu: "Columns",
    asGrid: "Grid",
    asTable: "Table",
    /** @param {number} videos */
    soFar: (videos) => `${counted(videos, "video", "videos")} so far`,
    loadingMore: "Loading more …",
    noMatch: "No videos match these filters.",
    upload: "Upload a video",
    empty: "You have no videos yet.",
    emptyForAll: "No videos are published yet. Upload the first one.",
    noViewsInPeriod: "No views in this period.",
    noViewsYet: "No views counted yet. Views appear after a few minutes.",
    // The lists that the library can show.
    kinds: {
      mine: "My videos",
      folder: "My folders",
      tag: "By tag",
      region: "By release region",
      category: "By category",
      user: "By owner",
      top: "Most viewed",
      status: "By status",
      everyone: "All videos",
    },
    noneMatch: "No published videos match.",
    controls: {
      // Hints below an order that omits videos.
      omitted: {
        duration: "Without videos of unknown duration",
        rating: "Without unrated videos",
        viewCount: "Without unviewed videos. Views of the last hour follow later",
      },
      // Names of filters in the service's messages.
      parameters: {
        minDuration: "the minimum duration",
        maxDuration: "the maximum duration",
        from: "“Created from”",
        to: "“Created before”",
      },
      title: "Library filters",
      windows: {
        hour: "Last hour",
        day: "Last day",
        week: "Last week",
        month: "Last month",
      },
      mostViews: "Most views",
      fastestRising: "Fastest rising",
      mostViewsEver: "Most views of all time",
      filters: "Filters",
      // Follows the number of filters that are set; only read aloud.
      filtersSet: " set",
      levels: {
        false: "In this folder",
        true: "With subfolders",
      },
      chooseOne: "Choose one",
      ownerHint: "Enter me for your own videos",
      any: "Any",
      formatHint: "For example mp4",
      minDuration: "Minimum minutes",
      maxDuration: "Maximum minutes",
      createdFrom: "Created from",
      createdBefore: "Created before",
      titleAscending: "Title A to Z",
      titleDescending: "Title Z to A",
      longest: "Longest first",
      shortest: "Shortest first",
      bestRated: "Highest rated first",
      worstRated: "Lowest rated first",
      mostViewed: "Most viewed first",
      leastViewed: "Least viewed first",
      region: "Region",
      regionHint: "Country code, for example NZ",
      noTags: "No published videos have tags yet",
      tag: "Tag",
      tagsInUse: "Tags in use",
    },
    bulk: {
      titles: {
        /** @param {number} videos */
        edit: (videos) => `Edit ${counted(videos, "video", "videos")}`,
        /** @param {number} videos */
        playlist: (videos) => `Add ${counted(videos, "video", "videos")} to a playlist`,
        /** @param {number} videos */
        delete: (videos) => `Delete ${counted(videos, "video", "videos")}?`,
      },
      editHint: "Empty fields stay as they are. You can undo the whole change.",
      noChange: "No change",
      folderHint: "Path, for example clients/acme",
      addTags: "Add tags",
      removeTags: "Remove tags",
      deleteHint: "The videos can no longer be found or played. You can restore them for a limited time.",
      createFirst: "Create one first.",
      playlist: "Playlist",
      progress: "Progress",
      /** @param {number} done @param {number} videos @param {number} changed @param {number} failed */
      result: (done, videos, changed, failed) => `${done} of ${counted(videos, "video", "videos")}: ${changed} changed, ${failed} failed.`,
      /** @param {number} done @param {number} videos @param {number} changed @param {number} failed */
      progressText: (done, videos, changed, failed) => `Saving … ${done} of ${counted(videos, "video", "videos")}: ${changed} changed, ${failed} failed.`,
      /** @param {number} part */
      undoPart: (part) => `Undo part ${part}`,
      unreadable: "The video cannot be read.",
    },
    checklist: {
      uploadHint: "Select or drop a video file. Its details are read automatically.",
      publish: "Publish",
      publishHint: "Edit the video and set its visibility to Public.",
      openTheVideo: "Open the video",
      shareHint: "Send the link of a published video.",
      copyTheLink: "Copy the link",
      connect: "Connect",
      connectHint: "Receive a request on your own server for each change.",
      setUpAWebhook: "Set up a webhook",
      title: "First steps",
      /** @param {number} done @param {number} steps */
      progress: (done, steps) => `${done} of ${steps} done`,
      dismiss: "Dismiss first steps",
      // Follows the title of a step; only read aloud.
      stepDone: ", done",
    },
    folders: {
      title: "Folders",
      path: "Path of the folder",
      empty: "You have no folders yet. Set the folder of a video to create one.",
      subfolders: "Subfolders",
      /** @param {number} videos */
      notMoved: (videos) => `${counted(videos, "video", "videos")} cannot be moved.`,
      moveOrRename: "Move or rename",
      newPath: "New path",
      moveHint: "All videos in the folder move with it. You can undo the move.",
      move: "Move",
      /** @param {number} videos */
      moving: (videos) => `${counted(videos, "video", "videos")} moved …`,
    },
    grid: {
      keys: "Use the arrow keys, Home and End to move between videos, Enter to open one, and x to select it. Press / to search.",
      /** @param {string} title */
      select: (title) => `Select ${title}`,
      /** @param {string} time */
      scheduled: (time) => `Scheduled for ${time}`,
      expired: "Expired",
    },
    table: {
      selectAll: "Select all videos shown",
    },
  },
  search: {
    title: "Search",
    categories: "Categories",
    help: "Searches titles, people, tags, descriptions and captions. Typos are tolerated. Use \"quotes\" for a phrase and -word to exclude a word.",
    empty: "Search by title, person, tag or spoken words.",
    searching: "Searching …",
    indexBehind: "The search index is behind. Recent videos may be missing until it catches up.",
    noMatch: "No videos match. Remove a word or a filter.",
    /** @param {string} value */
    removeFilter: (value) => `Remove filter: ${value}`,
    years: "Years",
  },
  upload: {
    title: "Upload",
    oneOnly: "Select one file only. A video has one source file.",
    /** @param {Children} video */
    replace: (video) => ["Replace the file of ", video],
    replaceHint: "The new file replaces the current one when the upload is complete.",
    newInstead: "Upload a new video instead",
    // A button to select a file follows.
    dropOne: "Drag and drop a video file here, or",
    // A button to select files follows.
    drop: "Drag and drop video files here, or",
    formats: "MP4, MOV, MKV, WebM, AVI and others, up to 500 GB",
    /** @param {number} files */
    uploadAll: (files) => `Upload all ${files}`,
    selectFiles: "Select files",
    selectFile: "Select file",
    faults: {
      storageSilent: "The storage does not respond. Check your connection and try again.",
      failedTitle: "Upload failed",
      /** @param {number} status */
      storageStatus: (status) => `The storage responded with status ${status}. Try again.`,
      offline: "No connection. The upload resumes automatically.",
      busy: "The service is busy. The upload resumes in a moment.",
      unreadable: "The file cannot be read because it was changed or moved. Select it again.",
      /** @param {string} file */
      differentFile: (file) => `This is a different file. Select the unchanged file ${file}.`,
      emptyFile: "The file is empty. Select another file.",
      tooLarge: "The file is larger than 500 GB. Select a smaller file.",
      /** @param {string} type */
      notAVideo: (type) => `The type ${type} is not a video. Select a video file.`,
      selectAgain: "Select the file again.",
      expired: "The upload has expired. Try again to start over.",
      restarted: "The upload was restarted.",
    },
    row: {
      waiting: "Waiting",
      uploading: "Uploading",
      paused: "Paused",
      interrupted: "Interrupted",
      failed: "Failed",
      editDetails: "Edit details",
      pause: "Pause",
      resume: "Resume",
      reloaded: "The page was reloaded during the upload. Select the same file to resume. Only missing parts are uploaded.",
      selectAgain: "Select file again",
      cancelled: "Upload cancelled.",
      tooLate: "The upload was already complete and cannot be cancelled.",
      cancelQuestion: "Cancel this upload?",
      /** @param {Children} file */
      cancelWarning: (file) => ["The uploaded part of ", file, " is discarded."],
      alsoDelete: "Also delete the video",
      cancelUpload: "Cancel upload",
      keepUploading: "Keep uploading",
      /** @param {string} loaded @param {string} size */
      amount: (loaded, size) => `${loaded} of ${size}`,
      /** @param {string} amount */
      confirming: (amount) => `${amount}: waiting for confirmation`,
      /** @param {string} amount @param {string} size @param {string} time */
      speed: (amount, size, time) => `${amount}, ${size}/s, ${time} left`,
      /** @param {string} file */
      pausedFile: (file) => `${file} is paused.`,
      /** @param {string} file @param {number} percent */
      percent: (file, percent) => `${file}: ${percent} percent uploaded.`,
    },
    steps: {
      states: {
        done: "done",
        running: "in progress",
        waiting: "waiting",
        failed: "failed",
      },
      viewVideo: "View video",
      dismiss: "Dismiss",
      replaced: "A later upload replaced this file.",
      deletedHint: "The video is deleted. You can restore it on its page for a limited time.",
      uploaded: "Uploaded",
      received: "Received",
      ready: "Ready",
      // The end of an upload, after the video's title.
      endReady: "ready.",
      endDeleted: "deleted.",
      endFailed: "the file cannot be processed.",
    },
  },
  video: {
    edit: {
      title: "Edit video",
      publishAtHint: "Hidden from viewers until then.",
      expiresAtHint: "Hidden from viewers from then on.",
      folderHint: "Path, for example clients/acme. Only you see it.",
      languageHint: "Language tag, for example en-NZ.",
      seriesHint: "ID of the series video.",
      externalIdHint: "ID in your own system. Only you see it.",
      slugHint: "Readable name for URLs, for example harbour-at-dawn.",
      details: "Details",
      publication: "Publication",
      series: "Series and episode",
      identifiers: "Identifiers",
      correct: "Correct the marked fields.",
      unsaved: "Unsaved changes",
    },
    showLess: "Show less",
    showMore: "Show more",
    unavailable: "Video unavailable",
    unavailableHint: "It may be private, not ready, not yet published, or expired. Then only its owner can see it.",
    shareTitle: "Share this video",
    tabs: {
      details: "Details",
      credits: "Credits",
      titles: "Regional titles",
      captions: "Captions and chapters",
      history: "History",
    },
    // Validation errors of the form that edits a video.
    faults: {
      /** @param {number} characters */
      tooLong: (characters) => `Use at most ${count(characters)} characters.`,
      noTitle: "Enter a title.",
      oneLine: "Use one line.",
      wholeNumber: "Enter a whole number.",
      slug: "Use lower-case letters, digits and single hyphens between them.",
      noSeries: "Enter the series of this season and episode.",
      /** @param {string} field */
      tooEarly: (field) => `Choose a time after “${field}”.`,
      keyTaken: "This key is already used.",
      notANumber: "Enter a number.",
    },
    history: {
      compareCurrent: "Compare with current version",
      /** @param {number} version */
      version: (version) => `Version ${version}`,
      /** @param {number} version */
      viewVersion: (version) => `View version ${version}`,
      view: "View",
      /** @param {number} version */
      revertToVersion: (version) => `Revert to this version: ${version}`,
      revertToThis: "Revert to this version",
      /** @param {number} version */
      revertChange: (version) => `Revert the change of version ${version}`,
      revert: "Revert",
      /** @param {number} version */
      compareVersion: (version) => `Compare version ${version}`,
      compare: "Compare",
      latestLater: "The latest change appears in a moment …",
      findAVersion: "Find a version",
      compared: "Versions to compare",
      /** @param {number} version */
      oneChosen: (version) => `Version ${version}. Select another version.`,
      /** @param {number} version @param {number} other */
      twoChosen: (version, other) => `Versions ${version} and ${other}`,
      clear: "Clear",
    },
    captions: {
      title: "Captions",
      add: "Add captions",
      empty: "No captions yet.",
      /** @param {number} cues @param {string} size */
      aboutFromFile: (cues, size) => `${counted(cues, "cue", "cues")}, ${size}, from the source file`,
      /** @param {number} cues @param {string} size */
      about: (cues, size) => `${counted(cues, "cue", "cues")}, ${size}`,
      /** @param {string} language */
      replaceItem: (language) => `Replace the captions in ${language}`,
      replace: "Replace",
      /** @param {string} language */
      removeItem: (language) => `Remove the captions in ${language}`,
      /** @param {string} language */
      removeQuestion: (language) => `Remove the captions in ${language}?`,
      /** @param {string} language */
      downloadItem: (language) => `Download the captions in ${language}`,
      download: "Download",
      tooLargeTitle: "The file is too large",
      /** @param {string} size */
      tooLarge: (size) => `The file has ${size}. The limit is 1 MB.`,
      languageHint: "Language tag, for example en, pt-BR or zh-Hant.",
      file: "File",
      fileHint: "WebVTT (.vtt) or SubRip (.srt) in UTF-8, up to 1 MB.",
      /** @param {number} line */
      line: (line) => `Line ${line}:`,
    },
    chapters: {
      notATime: "Enter a time such as 5:30, 1:05:30 or 0:31.5.",
      taken: "Another chapter starts at this time.",
      title: "Chapters",
      edit: "Edit chapters",
      add: "Add chapters",
      propose: "Use proposed chapters",
      /** @param {string} time @param {string} title */
      playItem: (time, title) => `Play from here: ${time}, ${title}`,
      playFromHere: "Play from here",
      empty: "No chapters yet.",
      /** @param {Children} ofChapter */
      start: (ofChapter) => ["Start", ofChapter],
      /** @param {number} chapter */
      ofChapter: (chapter) => ` of chapter ${chapter}`,
      /** @param {Children} ofChapter */
      chapterTitle: (ofChapter) => ["Title", ofChapter],
      /** @param {number} chapter */
      removeItem: (chapter) => `Remove chapter ${chapter}`,
      addOne: "Add a chapter to save.",
      saveNone: "Save to remove all chapters.",
      addChapter: "Add chapter",
      addHere: "Add chapter at playback position",
      hint: "Enter start times such as 5:30 or 1:05:30. Chapters are saved in order of their start.",
      conflict: "Another user saved the chapters while you edited them. Your changes are kept in this form.",
      saveChapters: "Save chapters",
      /** @param {number} chapter */
      untitled: (chapter) => `Chapter ${chapter}`,
      /** @param {number} chapters */
      number: (chapters) => counted(chapters, "chapter", "chapters"),
    },
    conflict: {
      choose: "Another user saved this video while you edited it. Choose a value for each field that you both changed.",
      bothKept: "Another user saved this video while you edited it. You changed different fields, so both changes are kept.",
      /** @param {Children} value */
      original: (value) => ["Original: ", value],
      myChange: "My change:",
      theirChange: "Their change:",
      yourChanges: "Your changes",
      theirChanges: "Their changes",
      /** @param {number} fields */
      left: (fields) => `${counted(fields, "field", "fields")} to choose`,
    },
    credits: {
      title: "Credits",
      add: "Add credit",
      empty: "No credits yet.",
      /** @param {string} name */
      editItem: (name) => `Edit ${name}`,
      /** @param {string} name */
      removeItem: (name) => `Remove ${name}`,
      /** @param {string} name */
      removeQuestion: (name) => `Remove ${name}?`,
      edit: "Edit credit",
      person: "Person ID",
      personHint: "For example nm0000554.",
      name: "Name",
      nameHint: "Name as credited.",
      position: "Position",
      positionHint: "Place in the list of credits.",
      /** @param {number} role */
      role: (role) => `Role ${role}`,
      categoryHint: "For example actor, director or writer.",
      job: "Job",
      jobHint: "Optional detail.",
      characters: "Characters",
      charactersHint: "One per line.",
      /** @param {number} role */
      removeRole: (role) => `Remove role ${role}`,
      addRole: "Add role",
    },
    episodes: "Episodes",
    /** @param {number} season */
    season: (season) => `Season ${season}`,
    /** @param {number} episode */
    episode: (episode) => `Episode ${episode}`,
    /** @param {string} key */
    metadataKey: (key) => `Metadata: ${key}`,
    // Custom keys and values in the form that edits a video.
    metadata: {
      /** @param {number} row */
      row: (row) => `row ${row}`,
      /** @param {number} row */
      keyOfRow: (row) => `Key of row ${row}`,
      key: "key",
      /** @param {string} named */
      typeOfKey: (named) => `Type of ${named}`,
      text: "text",
      number: "number",
      boolean: "yes/no",
      /** @param {string} named */
      valueOfKey: (named) => `Value of ${named}`,
      value: "value",
      /** @param {string} named */
      removeItem: (named) => `Remove ${named}`,
      add: "Add key",
    },
    // The dialogs for captions, credits and titles.
    items: {
      exists: "This item already exists. Your changes are kept in this form.",
      conflict: "Another user saved this item while you edited it. Your changes are kept in this form.",
    },
    regions: {
      world: "Worldwide",
      europe: "Europe",
      asia: "Asia",
      northAmerica: "North America",
      southAmerica: "South America",
    },
    overview: {
      // Origins of a value.
      edited: "edited",
      readFromFile: "read from the file",
      imported: "imported",
      /** @param {number} version */
      version: (version) => `version ${count(version)}`,
      /** @param {number} season */
      season: (season) => `season ${count(season)}`,
      /** @param {number} episode */
      episode: (episode) => `episode ${count(episode)}`,
      /** @param {number} frames */
      framesPerSecond: (frames) => `${frames} fps`,
      noSource: "No source file yet.",
      upload: "Upload",
      noRenditions: "No renditions yet.",
      available: "Available",
    },
    person: {
      title: "Videos of a person",
      /** @param {Children} name */
      heading: (name) => ["Videos with ", name],
      empty: "No published videos.",
      /** @param {Children} characters */
      playing: (characters) => [" as ", characters],
    },
    player: {
      interruptedTitle: "Playback interrupted",
      interrupted: "The connection may be lost. Try again to resume at the same position.",
      loading: "Loading player …",
      unplayable: "This video cannot be played.",
      unplayableHere: "This video cannot be played in this browser.",
      onlyYou: "Only you can play this video.",
      speed: "Speed",
      captionsOff: "Captions off",
      qualityChoice: "Quality",
      uploadFile: "Upload a file",
      original: "Original",
      /** @param {string} name @param {string} rate */
      slowQuality: (name, rate) => `${name}, ${rate} kbit/s`,
      /** @param {string} name @param {string} rate */
      quality: (name, rate) => `${name}, ${rate} Mbit/s`,
      /** @param {string} types */
      unsupportedYet: (types) => `The browser does not support the format (${types}), or the file cannot be loaded. Renditions for all browsers are being processed.`,
      /** @param {string} types */
      unsupported: (types) => `The browser does not support the format (${types}), or the file cannot be loaded.`,
      /** @param {string} broken @param {string} quality */
      fellBack: (broken, quality) => `The browser cannot play ${broken}. Playing ${quality} instead.`,
      // Between the names of qualities.
      and: " and ",
      /** @param {string} time */
      scheduled: (time) => `It is scheduled for ${time}.`,
    },
    playlists: {
      addTo: "Add to playlist",
      none: "Not in any playlist that you can see.",
      yours: "yours",
      /** @param {Children} user */
      ofUser: (user) => ["of ", user],
      /** @param {string} playlist */
      removeItem: (playlist) => `Remove it from ${playlist}`,
      /** @param {string} playlist */
      removeQuestion: (playlist) => `Remove it from ${playlist}?`,
      /** @param {string} title */
      addedTo: (title) => `Added to ${title}.`,
      /** @param {string} playlist */
      addToItem: (playlist) => `Add to ${playlist}`,
      added: "Added",
      title: "title",
      createAndAdd: "Create and add",
    },
    poster: {
      updated: "Poster updated.",
      failed: "The poster could not be created.",
      unchanged: "The poster is unchanged. It already shows the nearest frame.",
      frames: "Frames",
      // Follows the time of a frame; only read aloud.
      current: ", current poster",
      set: "Set poster frame",
      creating: "Creating poster …",
    },
    processing: {
      ownerTools: "Owner tools",
      ready: "The video is ready.",
      /** @param {number} steps */
      failed: (steps) => `${counted(steps, "step", "steps")} failed`,
      /** @param {number} done @param {number} steps */
      progress: (done, steps) => `${count(done)} of ${counted(steps, "step", "steps")} done`,
      /** @param {number} steps */
      done: (steps) => `${steps > 1 ? "All " : ""}${counted(steps, "step", "steps")} done`,
      title: "Processing",
      /** @param {string} job */
      retrying: (job) => `${job}: retrying.`,
      /** @param {string} job */
      progressOf: (job) => `${job}: progress`,
      /** @param {number} attempt @param {Children} reason */
      queuedAgain: (attempt, reason) => [`Attempt ${attempt} is queued. Last error: `, reason],
    },
    rating: {
      removed: "Rating removed.",
      title: "Rating",
      none: "No ratings yet.",
      /** @param {Children} average @param {number} votes */
      average: (average, votes) => [average, ` of 10, ${counted(votes, "vote", "votes")}`],
      /** @param {number} likes @param {number} dislikes */
      likes: (likes, dislikes) => `${counted(likes, "like", "likes")}, ${counted(dislikes, "dislike", "dislikes")}`,
      /** @param {string} average @param {number} votes */
      imported: (average, votes) => `Imported: ${average} by ${counted(votes, "vote", "votes")}`,
      yours: "Your rating, 1 to 10",
      /** @param {number} value */
      rated: (value) => `You rated it ${value} of 10.`,
      liked: "You liked this video.",
      like: "Like",
      disliked: "You disliked this video.",
      dislike: "Dislike",
      remove: "Remove my rating",
    },
    remove: {
      deleted: "Deleted.",
      question: "Delete this video?",
      /** @param {Children} title */
      warning: (title) => [title, " can no longer be found or played. You can restore it for a limited time."],
      conflict: "Another user changed the video. Delete it anyway?",
      restored: "Restored.",
      /** @param {string} time */
      restoreUntil: (time) => `You can restore it until ${time}. Then it is permanently deleted.`,
      restore: "Restore",
    },
    similar: "Similar videos",
    titles: {
      title: "Regional titles",
      add: "Add titles",
      empty: "No regional titles yet.",
      /** @param {string} place */
      editItem: (place) => `Edit the titles of ${place}`,
      /** @param {string} place */
      removeItem: (place) => `Remove the titles of ${place}`,
      /** @param {string} place */
      removeQuestion: (place) => `Remove the titles of ${place}?`,
      /** @param {string} place */
      formTitle: (place) => `Titles of ${place}`,
      region: "Region",
      regionHint: "Country code, for example NZ, or XWW for worldwide.",
      languageHint: "Language tag, for example en-NZ. Leave empty for all languages.",
      /** @param {number} number */
      item: (number) => `Title ${number}`,
      types: "Types",
      typesHint: "For example original or working. One per line.",
      attributes: "Attributes",
      attributesHint: "For example literal title. One per line.",
      /** @param {number} number */
      removeTitle: (number) => `Remove title ${number}`,
      addOne: "Add title",
    },
    views: {
      spans: {
        hour: "24 hours",
        day: "30 days",
      },
      time: "Time",
      loading: "Loading views …",
      excluded: "Table and excluded views",
      /** @param {string} span */
      none: (span) => `No views in the last ${span}.`,
      /** @param {number} views @param {string} span @param {string} peak @param {string} time */
      summaryWithPeak: (views, span, peak, time) => `${counted(views, "view", "views")} in the last ${span}. Peak: ${peak}, ${time}.`,
      /** @param {number} views @param {string} span */
      summary: (views, span) => `${counted(views, "view", "views")} in the last ${span}.`,
      /** @param {string} span */
      inTheLast: (span) => `in the last ${span}`,
      byTime: "Views by time",
      hour: "Hour from",
      day: "Day",
      watched: "Watched",
      /** @param {number} views @param {number} excluded */
      countedSome: (views, excluded) => `Last 24 hours: ${counted(views, "view", "views")} counted, ${count(excluded)} excluded:`,
      /** @param {number} views */
      countedAll: (views) => `Last 24 hours: ${counted(views, "view", "views")} counted, none excluded.`,
    },
  },
  history: {
    past: {
      /** @param {string} time */
      asOf: (time) => `Video as of ${time}`,
      /** @param {number} version */
      version: (version) => `Version ${version}`,
      /** @param {number} version */
      ofVersion: (version) => `version ${version}`,
      /** @param {string} fields */
      notStored: (fields) => `Not stored for this version: ${fields}.`,
      revert: "Revert to this version …",
    },
    full: "Full history",
    compare: {
      /** @param {number} from @param {number} to */
      heading: (from, to) => `Changes from version ${from} to version ${to}`,
      identical: "These versions are identical.",
      /** @param {number} version */
      revertTo: (version) => `Revert to version ${version} …`,
      title: "Compare two versions",
      from: "From version",
      to: "To version",
      compare: "Compare",
      earlierTime: "View an earlier time",
      asOf: "Video as of",
    },
    entries: {
      // Reasons why a revert skips a field.
      whySkipped: {
        notKept: "not stored: the value was too large for the history",
        notWritable: "set by the service",
        gone: "its video is permanently deleted",
      },
      /** @param {Children} action @param {Children} author @param {Children} time */
      byline: (action, author, time) => [action, " by ", author, " ", time],
      /** @param {number} changes */
      omitted: (changes) => counted(changes, "more change is not stored", "more changes are not stored"),
      /** @param {string} time */
      changeSetOf: (time) => `Change set of ${time}`,
      /** @param {number} steps */
      processed: (steps) => `Processed (${counted(steps, "step", "steps")})`,
      /** @param {number} steps */
      stepsFailed: (steps) => `, ${count(steps)} failed`,
      /** @param {Children} author @param {Children} version @param {Children} time */
      changedSince: (author, version, time) => ["changed", author && [" by ", author], version && [" in version ", version], time && [", ", time]],
      /** @param {number} fields */
      moreFields: (fields) => counted(fields, "more field", "more fields"),
      added: "added",
      removed: "removed",
      moved: "moved",
      /** @param {number} bytes */
      truncated: (bytes) => `truncated from ${count(bytes)} bytes`,
      storedFile: "a stored file",
    },
    behind: "The latest changes are not available yet. Retrying …",
    report: {
      loadingPreview: "Loading preview",
      reverting: "Reverting",
      /** @param {number} changes */
      checked: (changes) => `${counted(changes, "change", "changes")} checked so far.`,
      /** @param {Children} reverted @param {Children} unchanged @param {Children} skipped @param {Children} failed @param {Children} pending */
      previewed: (reverted, unchanged, skipped, failed, pending) => [reverted, " would be reverted, ", unchanged, " unchanged, ", skipped, " skipped, ", failed, " failed", pending && [", ", pending, " pending"], "."],
      /** @param {Children} reverted @param {Children} unchanged @param {Children} skipped @param {Children} failed @param {Children} pending */
      reverted: (reverted, unchanged, skipped, failed, pending) => [reverted, " reverted, ", unchanged, " unchanged, ", skipped, " skipped, ", failed, " failed", pending && [", ", pending, " pending"], "."],
      /** @param {number} items */
      fine: (items) => `${counted(items, "more item", "more items")} without problems`,
      more: "Load more skipped and failed items",
      unchanged: "unchanged",
      /** @param {Children} fields */
      previewedFields: (fields) => ["Would be reverted: ", fields],
      /** @param {Children} fields */
      revertedFields: (fields) => ["Reverted: ", fields],
      allFields: "all fields",
      /** @param {Children} field @param {Children} reason */
      skippedField: (field, reason) => ["Skipped: ", field, ", ", reason],
      /** @param {number} fields */
      andMore: (fields) => `and ${counted(fields, "more field", "more fields")}`,
      /** @param {string} reason */
      failed: (reason) => `Failed: ${reason}`,
      unknown: "it could not be reverted",
    },
    revert: {
      /** @param {number} fields */
      reverted: (fields) => `${counted(fields, "field", "fields")} reverted.`,
      /** @param {number} version */
      changeQuestion: (version) => `Revert the change of version ${version}?`,
      /** @param {number} version */
      versionQuestion: (version) => `Revert to version ${version}?`,
      conflict: "Another user changed the video, so nothing was reverted. Review the updated preview.",
      fields: "Fields to revert",
      changedLater: "Changed later by other users. Select a field to revert it too.",
      /** @param {number} version */
      others: (version) => `Other differences from version ${version}`,
      nothing: "Nothing to revert. All editable fields already have these values.",
      /** @param {number} fields */
      includes: (fields) => `Includes ${counted(fields, "more field", "more fields")} if all fields above are selected`,
      /** @param {string} field */
      fixed: (field) => `${field} is set by the service and cannot be reverted.`,
      loading: "Loading preview …",
      busy: "Reverting …",
      /** @param {number} fields */
      revert: (fields) => `Revert ${counted(fields, "field", "fields")}`,
    },
    undo: {
      done: "Change set reverted.",
      revert: "Revert",
      hint: "A revert restores every field that this change set wrote. Fields that were changed later are skipped unless you select them.",
      revertNow: "Revert now",
      refreshPreview: "Refresh preview",
      previewRevert: "Preview revert",
      setOfRevert: "View the change set of this revert",
      force: "Also revert fields that were changed later",
      /** @param {number} items */
      inItems: (items) => `in ${counted(items, "item", "items")} of this report`,
      previewing: "Loading revert preview",
      previewTitle: "Revert preview",
      doneTitle: "Reverted",
    },
    // Labels of fields that only the history shows.
    fields: {
      state: "State",
      contentType: "Content type",
      arrivedAt: "Arrived",
      key: "Key",
      etag: "ETag",
      attempt: "Attempt",
      input: "Input",
      inputHash: "Input hash",
      output: "Output",
      error: "Error",
      job: "Job",
      characters: "Characters",
      types: "Types",
      attributes: "Attributes",
      addedAt: "Added",
      average: "Average",
      votes: "Votes",
      name: "Name",
      ordering: "Position",
      roles: "Roles",
      text: "Text",
      cues: "Cues",
      size: "Size",
      origin: "Origin",
      chapters: "Chapters",
      start: "Start",
      titles: "Titles",
      imported: "Imported ratings",
      entries: "Video",
    },
    // Actions of an entry. In lower case after a job or a part of a video.
    actions: {
      created: "Created",
      changed: "Changed",
      deleted: "Deleted",
      restored: "Restored",
      expired: "Expired",
      removed: "Removed",
      queued: "Queued",
      done: "Done",
      failed: "Failed",
      withdrawn: "Withdrawn",
    },
    // Authors that are not people, after “by”.
    authors: {
      import: "an import",
      database: "the database",
      unknown: "an unknown writer",
    },
    /** @param {string} job @param {string} action @param {number} attempt */
    jobAgain: (job, action, attempt) => `${job}: ${action}, attempt ${attempt}`,
    /** @param {string} job @param {string} action */
    job: (job, action) => `${job}: ${action}`,
    /** @param {Children} name */
    creditOf: (name) => ["Credit of ", name],
    /** @param {string} place */
    titlesOf: (place) => `Titles, ${place}`,
    /** @param {string} language */
    captionsOf: (language) => `Captions, ${language}`,
    entities: {
      chapters: "Chapters",
      rating: "Ratings",
      playlist: "Playlist",
      video: "Video",
      job: "Job",
    },
    /** @param {string} kind @param {Children} name */
    otherAuthor: (kind, name) => [`the ${kind} `, name],
  },
  changeSets: {
    list: "Change sets",
    title: "Change set",
    id: "Change set ID",
    about: "A change set is everything that one request or one import changed. You can revert it as a whole.",
    hint: "Each history entry links to its change set. Imports print the ID.",
    changes: "Changes",
    notFound: "Change set not found. Check the ID. You see only changes of your own videos and playlists.",
    notYet: "No changes are listed yet. Changes appear after a few seconds. Checking again …",
  },
  playlists: {
    title: "Playlists",
    add: {
      notChosen: "Select a video of the list, or enter the address of a video page or a video ID.",
      added: "Added to the end of the playlist.",
      title: "Add a video",
      hint: "Words of its title, the address of its page, or its ID",
    },
    create: "New playlist",
    history: {
      deleted: "Playlist deleted",
      deletedHint: "Revert the change set that deleted the playlist to restore it with its videos. After a limited time it is permanently deleted.",
    },
    /** @param {Children} user */
    listOf: (user) => ["Playlists of ", user],
    yours: "Your playlists",
    none: "You have no playlists yet. Create one to arrange videos in order.",
    /** @param {Children} user */
    noneVisible: (user) => ["No playlists of ", user, " are visible to you."],
    /** @param {Children} time */
    updated: (time) => ["Updated ", time],
    ofUser: "Playlists of a user",
    editor: {
      title: "Edit playlist",
      saved: "Playlist saved.",
      conflict: "Another user saved the playlist. Your changes are kept in this form.",
      /** @param {Children} value */
      theirValue: (value) => ["now ", value],
      deleteQuestion: "Delete playlist?",
      /** @param {Children} title */
      deleteWarning: (title) => ["“", title, "” is no longer visible. Its videos are kept. You can restore it from the history at this address for a limited time."],
    },
    entries: {
      /** @param {string} title */
      notMoved: (title) => `“${title}” was not moved.`,
      removed: "Removed from the playlist.",
      /** @param {string} title */
      notRemoved: (title) => `“${title}” was not removed.`,
      playFirst: "Play first video",
      noneVisible: "No videos that you can see.",
      none: "No videos yet.",
      hint: "Drag a video by its handle. With the keyboard, press Enter on the handle, move with the arrow keys, and press Enter to drop or Escape to cancel.",
      /** @param {number} videos */
      hidden: (videos) => counted(videos, "more video is deleted or not visible to you.", "more videos are deleted or not visible to you."),
      /** @param {string} title */
      moveItem: (title) => `Move ${title}`,
      up: "Up",
      down: "Down",
      drop: "Drop",
      /** @param {string} title */
      removeItem: (title) => `Remove ${title}`,
    },
    playlist: "Playlist",
    deleted: "Playlist deleted.",
    /** @param {string} user */
    of: (user) => `Playlists of ${user}`,
    sorting: {
      /** @param {number} position @param {number} videos */
      lifted: (position, videos) => `Picked up. Position ${position} of ${videos}. Move with the arrow keys, drop with Enter, cancel with Escape.`,
      /** @param {number} position @param {number} videos */
      liftedOfMore: (position, videos) => `Picked up. Position ${position} of ${videos} or more. Move with the arrow keys, drop with Enter, cancel with Escape.`,
      loadingMore: "More videos are loading.",
      /** @param {number} position */
      position: (position) => `Position ${position}.`,
      /** @param {number} position */
      dropped: (position) => `Dropped at position ${position}.`,
      /** @param {number} position */
      cancelled: (position) => `Move cancelled. Position ${position}.`,
      droppedAtEnd: "Dropped at the end of the playlist.",
    },
  },
  webhooks: {
    title: "Webhooks",
    create: "New webhook",
    /** @param {Children} user */
    listOf: (user) => ["Webhooks of ", user],
    yours: "Your webhooks",
    about: "A webhook sends each change to your server as a signed request. Changes of one video are sent in order.",
    none: "You have no webhooks yet. Create one to receive changes on your server.",
    userHasNone: "This user has no webhooks.",
    ofUser: "Webhooks of a user",
    deliveries: {
      title: "Deliveries",
      about: "All attempts of the last 7 days, newest first.",
      /** @param {number} attempts */
      showNew: (attempts) => `Show ${counted(attempts, "new attempt", "new attempts")}`,
      none: "No deliveries in the last 7 days.",
      /** @param {number} attempt */
      attempt: (attempt) => `attempt ${count(attempt)}`,
      noResponse: "No response",
      /** @param {number} milliseconds */
      milliseconds: (milliseconds) => `${count(milliseconds)} ms`,
      responseBody: "Response body",
      bodyStart: "First bytes of the response body",
    },
    dialogs: {
      replayStarted: "Replay started.",
      replay: "Replay",
      /** @param {Children} header */
      replayAbout: (header) => ["Sends every change since a time again, in the order of each video. Delivered changes are sent again with the same ", header, ", so that the receiver can drop duplicates."],
      staysPaused: "The webhook stays paused. Resume it to send the changes.",
      replayFrom: "Replay from",
      replayFromHint: "In the time zone of this browser, at most 30 days ago.",
      rotateQuestion: "Rotate secret?",
      rotateAbout: "For one day, changes are signed with both the new and the current secret, so that the receiver can switch without missing a change. Older secrets become invalid now.",
      rotate: "Rotate secret",
      deleteQuestion: "Delete webhook?",
      /** @param {Children} webhook */
      deleteWarning: (webhook) => ["“", webhook, "” receives no more changes. Its secret and its deliveries are permanently deleted. To stop it temporarily, pause it."],
    },
    form: {
      creating: "Creating …",
      title: "Edit webhook",
      conflict: "Another user saved this webhook. Your changes are kept in this form. All other fields have the values that the other user saved.",
      url: "URL",
      urlHint: "Endpoint that receives changes: https on port 443 or 8443.",
      descriptionHint: "Shown only in the console.",
      changesOf: "Changes of",
      own: "My videos and playlists",
      allUsers: "All users",
      oneUser: "One user",
      noneChosen: "Select at least one event.",
      invalidTitle: "Invalid content",
    },
    secret: {
      title: "Signing secret",
      /** @param {Children} once */
      about: (once) => ["The receiver verifies signatures with this secret. ", once, " Store it where the receiver reads its secrets."],
      once: "It is shown only once.",
      label: "Secret",
      /** @param {string} time */
      previous: (time) => `Until ${time}, changes are also signed with the previous secret.`,
      stored: "I stored the secret",
    },
    types: {
      all: "All events",
      selected: "Selected events",
    },
    events: "Events",
    /** @param {string} group @param {string} action */
    typeName: (group, action) => `${group}: ${action}`,
    verify: {
      title: "Verify signatures",
      /** @param {Children} id @param {Children} time @param {Children} signature @param {Children} library */
      about: (id, time, signature, library) => ["Each request has the headers ", id, ", ", time, " and ", signature, ", as specified by Standard Webhooks. Verify the unchanged body with a library, such as ", library, ":"],
      language: "Language",
      /** @param {string} language */
      example: (language) => `Example in ${language}`,
      /** @param {Children} id */
      duplicates: (id) => ["A change may arrive twice with the same ", id, ": drop duplicates. Respond with a 2xx status within 10 seconds. Any other response is retried."],
      copied: "Copied.",
      blocked: "The browser blocked copying. The text is selected: copy it with the keyboard.",
      copyCode: "Copy code",
      copy: "Copy",
    },
    webhook: "Webhook",
    subscribedTo: "Subscribed to",
    allEvents: "All",
    previousSecret: "Previous secret",
    /** @param {string} time */
    validUntil: (time) => `valid until ${time}`,
    deleted: "Webhook deleted.",
    resumed: "Webhook resumed.",
    pausedNow: "Webhook paused.",
    sendingTest: "Sending …",
    sendTest: "Send test",
    resume: "Resume",
    pause: "Pause",
    replayDialog: "Replay …",
    rotateDialog: "Rotate secret …",
    deleteDialog: "Delete …",
    testDelivered: "Test delivered.",
    testFailed: "Test failed.",
    // Groups of events.
    groups: {
      video: "Videos",
      job: "Jobs",
      credit: "Credits",
      release: "Titles",
      captions: "Captions",
      chapters: "Chapters",
      rating: "Imported ratings",
      playlist: "Playlists",
    },
    // Events of a group.
    actions: {
      all: "all",
      created: "created",
      changed: "changed",
      deleted: "deleted",
      restored: "restored",
      expired: "expired",
      removed: "removed",
      queued: "queued",
      done: "done",
      failed: "failed",
      withdrawn: "withdrawn",
    },
    paused: "Paused",
    pausedHint: "Changes are kept for 30 days. Resume the webhook to send them.",
    /** @param {string} time */
    behindSince: (time) => `Behind since ${time}.`,
    /** @param {string} time */
    nextAttempt: (time) => `Next attempt: ${time}.`,
    deliveryFailed: "Delivery failed",
    /** @param {number} attempts */
    attemptsFailed: (attempts) => (attempts === 1 ? "The last attempt failed." : `The last ${counted(attempts, "attempt", "attempts")} failed.`),
    behind: "Behind",
    sending: "Sending pending changes.",
    lastTestFailed: "Test failed",
    lastTestRefused: "The receiver did not accept the last test.",
    upToDate: "Up to date",
    nothingPending: "No pending changes.",
    followsAll: "Changes of all users",
    followsOwn: "Changes of your videos and playlists",
    /** @param {Children} user */
    followsUser: (user) => ["Changes of videos and playlists of ", user],
  },
  operations: {
    title: "Operations",
    refused: "This page is for administrators.",
    toQuestions: "Questions about the archive",
    causes: {
      none: "No failed jobs.",
      /** @param {number} jobs */
      examined: (jobs) => `Only the newest ${counted(jobs, "failed job", "failed jobs")} are examined. There are more.`,
      /** @param {Children} time */
      latest: (time) => ["latest ", time],
      /** @param {number} number */
      video: (number) => `Video ${number}`,
      /** @param {number} videos */
      andMore: (videos) => `and ${count(videos)} more`,
      sourceIsCause: "The source files are the cause. Upload different files.",
      /** @param {number} jobs @param {string} kind */
      retryItem: (jobs, kind) => `Retry ${counted(jobs, "job", "jobs")}: ${kind}`,
      /** @param {number} jobs */
      retry: (jobs) => `Retry ${counted(jobs, "job", "jobs")}`,
      /** @param {number} retried @param {number} jobs */
      done: (retried, jobs) => `Done: ${count(retried)} of ${counted(jobs, "job", "jobs")} retried.`,
      /** @param {number} retried @param {number} jobs */
      retrying: (retried, jobs) => `Retrying: ${count(retried)} of ${counted(jobs, "job", "jobs")} retried.`,
    },
    failed: {
      title: "Failed videos",
      retryAll: "Retry all shown",
      none: "No failed videos.",
      /** @param {number} jobs */
      retried: (jobs) => `${counted(jobs, "job", "jobs")} retried`,
      /** @param {number} videos */
      permanent: (videos) => `${counted(videos, "video", "videos")} not retried because of the source file`,
      /** @param {number} videos */
      refused: (videos) => `${counted(videos, "video", "videos")} failed`,
      /** @param {number} done @param {number} videos @param {string} results */
      done: (done, videos, results) => `Done: ${done} of ${counted(videos, "video", "videos")}; ${results}.`,
      /** @param {number} done @param {number} videos @param {string} results */
      retrying: (done, videos, results) => `Retrying: ${done} of ${counted(videos, "video", "videos")}; ${results}.`,
      noJob: "No job failed. The status was set by a user.",
      noReason: "No reason was given.",
      /** @param {number} attempts @param {string} time */
      attempts: (attempts, time) => `${counted(attempts, "attempt", "attempts")}, the last ${time}.`,
      /** @param {string} video */
      uploadAnotherFor: (video) => `Upload another file: ${video}`,
      /** @param {string} job @param {string} video */
      retryItem: (job, video) => `Retry: ${job}, ${video}`,
    },
    loadingReason: "Loading the reason …",
    health: {
      title: "Health",
      healthy: "Healthy",
      /** @param {number} milliseconds @param {string} time */
      responds: (milliseconds, time) => `The service and its table respond in ${milliseconds} ms, checked at ${time}.`,
    },
    overview: {
      // Subjects of the messages in a queue.
      queues: {
        arrivals: "New files",
        probe: "Read files",
        thumbnails: "Thumbnails",
        transcode: "Transcoding",
        purge: "Purge deleted videos",
        aggregates: "Totals and lists",
        tallies: "Views and ratings",
        reverts: "Large reverts",
        deliveries: "Webhooks",
      },
      // Totals that the check compares. An id follows.
      compared: {
        entries: "List entries of video",
        ratings: "Ratings of video",
        reservations: "Unique values of video",
        marker: "Counted state of video",
        views: "Views of video",
        user: "Totals of user",
        "tag-count": "Count of tag",
        service: "Totals of the service",
        video: "Video",
      },
      outcomes: {
        found: "found",
        busy: "busy",
        unreadable: "unreadable",
        repaired: "repaired",
      },
      /** @param {Children} time */
      updated: (time) => ["Updated ", time, ". Refreshes every 30 seconds."],
      loading: "Loading the state of the service …",
      uploads: "Uploads",
      notRanked: "The rankings have not run yet.",
      searchIndex: "Search index",
      noIndex: "No index is published yet.",
      lateWebhooks: "Late webhooks",
      totalsCheck: "Totals check",
      queuesTitle: "Queues",
      causesTitle: "Causes of failed jobs",
      /** @param {Children} command */
      neverChecked: (command) => ["No check yet. Run ", command, "."],
      unavailable: "This part could not be read. The next update tries again.",
      /** @param {string} size @param {number} hours */
      amount: (size, hours) => `${size}, ${counted(hours, "hour", "hours")} of video`,
      /** @param {number} files */
      files: (files) => counted(files, "file", "files"),
      /** @param {Children} time */
      computed: (time) => ["Computed ", time, "."],
      /** @param {string} total @param {number} hours @param {number} peak @param {string} time */
      courseWithPeak: (total, hours, peak, time) => `${total} ${inTheLast(hours)}. Peak: ${count(peak)} in the hour from ${time}.`,
      /** @param {string} total @param {number} hours */
      course: (total, hours) => `${total} ${inTheLast(hours)}.`,
      /** @param {number} hours */
      span: (hours) => inTheLast(hours),
      /** @param {number} most @param {string} time */
      most: (most, time) => `Peak: ${count(most)} in the hour from ${time}`,
      // Follows the age of the index.
      old: "old",
      current: "Current",
      behind: "Behind",
      /** @param {number} videos @param {Children} time */
      published: (videos, time) => [`${counted(videos, "video", "videos")}, published `, time],
      noneExaminedLate: "The examined webhooks have delivered everything.",
      allDelivered: "All changes are delivered.",
      /** @param {number} webhooks */
      orMore: (webhooks) => `${count(webhooks)} or more`,
      // Follows the number of webhooks.
      undelivered: "with undelivered changes",
      /** @param {string} duration */
      late: (duration) => `${duration} late`,
      /** @param {string} time */
      failingSince: (time) => `failing since ${time}`,
      /** @param {number} totals */
      changedMeanwhile: (totals) => `${count(totals)} changed during the check`,
      /** @param {number} totals */
      unreadable: (totals) => `${count(totals)} unreadable`,
      /** @param {number} totals */
      repaired: (totals) => `${count(totals)} repaired`,
      /** @param {number} totals */
      disagree: (totals) => (PLURAL.select(totals) === "one" ? "total disagrees" : "totals disagree"),
      agree: "Agree",
      disagreeMark: "Disagree",
      /** @param {Children} time */
      checked: (time) => ["Checked ", time, "."],
      /** @param {Children} command */
      repair: (command) => ["Correct them with ", command, "."],
      messages: "Messages by queue",
      columns: {
        queue: "Queue",
        waiting: "Waiting",
        inProgress: "In progress",
        open: "Open jobs",
        oldest: "Oldest job",
        failed: "Failed messages",
      },
      approximate: "Numbers of messages are approximate.",
      /** @param {Children} command */
      redrive: (command) => [command, " shows failed messages and queues them again."],
    },
    /** @param {string} panel */
    refreshPanel: (panel) => `Refresh: ${panel}`,
    showMore: "Show more",
    /** @param {Children} time */
    created: (time) => ["created ", time],
    /** @param {string} caption */
    chartChoice: (caption) => `${caption}: how it is shown`,
    chart: "Chart",
    table: "Table",
    tags: {
      tag: "Tag",
      caption: "Published videos by tag",
      none: "No published videos have tags.",
    },
    top: {
      mostViewsCaption: "Videos with the most views",
      before: "Before",
      rise: "Rise",
      ever: "Ever",
      largestRiseCaption: "Videos with the largest rise",
      mostViewsEverCaption: "Videos with the most views ever",
      title: "Most viewed",
      none: "No views of published videos.",
      /** @param {string} time */
      computed: (time) => `Computed ${time}.`,
      notComputed: "Not computed yet.",
    },
    totals: {
      title: "User totals",
      hint: "Enter a user ID: the subject of the user’s tokens.",
      updatedLater: "Totals update shortly after a change. Deleted videos are counted separately.",
    },
    questions: {
      title: "Questions",
      about: "Saved SQL queries over changes, videos and views. Each run costs money.",
      noQuestions: "No saved questions.",
      question: "Question",
      from: "From",
      to: "To (included)",
      run: "Run",
      running: "Running the query …",
      failed: "No result",
      /** @param {string} id */
      runId: (id) => `Run: ${id}.`,
      /** @param {string} from @param {string} to */
      days: (from, to) => `${from} to ${to}, UTC`,
      /** @param {string} size @param {string} money */
      cost: (size, money) => `${size} read, ${money}`,
      /** @param {number} rows */
      rows: (rows) => counted(rows, "row", "rows"),
      noRows: "No rows for these days.",
      more: "There may be more rows. Choose fewer days to see them.",
      download: "Download CSV",
      // Titles by name of the question.
      titles: {
        "top-editors": "Users with most changes",
        deletions: "Deleted and removed items",
        "release-editors": "Users who changed most releases",
        "changes-by-day": "Changes by day and kind of item",
        "changes-by-week": "Changes and authors by week",
        "changed-fields": "Most changed fields of videos",
        "most-edited": "Videos with most changes by users",
        "new-titles": "Changed titles of videos",
        published: "Changed visibility of videos",
        "failed-jobs": "Failed jobs by kind and day",
        "views-by-category": "Views by week and category",
        "videos-by-status": "Videos by status and category",
      },
      columns: {
        author: "Author",
        authors: "Authors",
        changes: "Changes",
        videos: "Videos",
        changed_at: "Changed at, UTC",
        entity: "Kind",
        kind: "Job",
        video_id: "Video",
        playlist_id: "Playlist",
        action: "Action",
        day: "Day",
        week: "Week from",
        field: "Field",
        old_value: "Old value",
        new_value: "New value",
        failures: "Failures",
        category: "Category",
        status: "Status",
        views: "Views",
      },
    },
    waiting: {
      tenMinutes: "10 minutes",
      hour: "an hour",
      day: "a day",
      title: "Long processing",
      olderThan: "Older than",
      none: "No videos have been processing for this long.",
      /** @param {number} attempts */
      attempts: (attempts) => counted(attempts, "attempt", "attempts"),
      /** @param {number} percent @param {string} time */
      progress: (percent, time) => `${percent} %, since ${time}`,
      /** @param {string} time */
      since: (time) => `since ${time}`,
    },
  },
  // The page #/design for developers.
  designPage: {
    refusedTitle: "Conflict",
    refused: "Another user changed the video. Reload it and try again.",
    designSystem: "Design system",
    /** @param {string} theme */
    theme: (theme) => `Theme: ${theme}`,
    lightTheme: "Light theme",
    darkTheme: "Dark theme",
    exampleTitle: "A ride through the city",
    colours: "Colours",
    buttons: "Buttons",
    primary: "Primary",
    secondary: "Secondary",
    danger: "Danger",
    quiet: "Quiet",
    quietDanger: "Quiet danger",
    disabled: "Disabled",
    menu: "Menu",
    share: "Share",
    download: "Download",
    fields: "Fields",
    titleHint: "Shown in lists and on the page of the video.",
    languageFault: "Enter a language tag, for example en.",
    badges: "Badges",
    navigation: "Navigation",
    /** @param {string} theme */
    tabs: (theme) => `Tabs, ${theme}`,
    table: "Table",
    /** @param {string} theme */
    tableName: (theme) => `Table, ${theme}`,
    secondTitle: "Harbour at dawn",
    thirdTitle: "Low tide",
    numberOverTime: "Number over time",
    courseTime: "in the last 12 hours",
    /** @param {string} theme */
    course: (theme) => `95 views in the last 12 hours, ${theme}`,
    posters: "Posters",
    fourthTitle: "Night ferry",
    changedTextHeading: "Surfaces, and changed text",
    allDone: "All 5 steps done",
    steps: "Steps",
    /** @param {Children} change */
    changedText: (change) => ["Filmed over ", change, " in May"],
    changedFrom: "three mornings",
    changedTo: "two evenings",
    messages: "Messages",
    empty: "You have no videos yet.",
    openDialog: "Open dialog",
    showToast: "Show toast",
    dialogText: "You can restore it for a limited time.",
    icons: "Icons",
  },
};
